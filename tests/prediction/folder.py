"""The folder of a benchmark: a file per measurement while it runs, one for all once it is packed."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from diagnostics.errors import UsageError
from tests.prediction.measured import Measured

_RESULTS, _MACHINE = "results.json.xz", "machine.json"


class Folder:
    """Measurements by the name of their job, captures of some, and the machine that all came from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def capture(self, name: str) -> Path:
        """Return where the capture of a job is."""
        return self.path / "captures" / f"{name}.tar.xz"

    def _file(self, name: str) -> Path:
        return self.path / "measured" / f"{name}.json"

    def has(self, name: str) -> bool:
        """Return whether a job was measured without a disturbance."""
        path = self._file(name)
        return path.exists() and not msgspec.json.decode(path.read_bytes(), type=Measured).disturbed

    def write(self, measured: Measured) -> None:
        """Keep a measurement, whole or not at all."""
        path = self._file(measured.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".new")
        partial.write_bytes(msgspec.json.encode(measured))
        partial.replace(path)

    def measured(self) -> dict[str, Measured]:
        """Return all measurements by the name of their job.

        Raises:
            UsageError: there are none.

        """
        packed = self.path / _RESULTS
        if packed.exists():
            found = msgspec.json.decode(lzma.decompress(packed.read_bytes()), type=list[Measured])
        else:
            files = sorted((self.path / "measured").glob("*.json"))
            found = [msgspec.json.decode(file.read_bytes(), type=Measured) for file in files]
        if not found:
            raise UsageError("holds no measurements", where=str(self.path), hint="python -m tests.prediction run")
        return {measured.name: measured for measured in found}

    def machine(self) -> dict[str, str]:
        """Return what the measurements came from; empty before the first."""
        path = self.path / _MACHINE
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}

    def came_from(self, machine: dict[str, str]) -> None:
        """Say which machine the measurements come from.

        Raises:
            UsageError: those that are there came from another one.

        """
        # A run that needs no GPU says nothing of it.
        there = self.machine()
        if any(there[key] != value for key, value in machine.items() if key in there):
            raise UsageError(
                "holds measurements of another machine", where=str(self.path), hint="name another --folder"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / _MACHINE).write_text(json.dumps(there | machine, indent=1, sort_keys=True) + "\n", "utf-8")

    def pack(self, into: Path, captures: Iterable[str]) -> None:
        """Write all measurements as one file into another folder, with those captures."""
        found = [measured for _, measured in sorted(self.measured().items())]
        shutil.rmtree(into / "captures", ignore_errors=True)
        (into / "captures").mkdir(parents=True)
        (into / _RESULTS).write_bytes(lzma.compress(msgspec.json.encode(found), preset=9))
        Folder(into).came_from(self.machine())
        for name in captures:
            if self.capture(name).exists():
                shutil.copy(self.capture(name), Folder(into).capture(name))
