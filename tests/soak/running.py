"""Programs that a test starts, and what they use."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from diagnostics.loadgen.driving import run_load
from diagnostics.loadgen.load import LoadProfile

ROOT = Path(__file__).parents[2]
DIAG = (sys.executable, "-c", "import sys; from diagnostics.cli.main import main; sys.exit(main())")
TICKS = os.sysconf("SC_CLK_TCK")


def environment() -> dict[str, str]:
    """Return this process's environment without settings, for programs that are started elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DIAG_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def until(true: Callable[[], object], seconds: float, what: str = "it", pause: float = 0.02) -> None:
    """Wait until something is true; look again after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not come true in {seconds:g} s"
        time.sleep(pause)


@dataclass
class Serving:
    """A `diag serve` of its own process."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def ask(self, path: str) -> bytes:
        """Return the answer to a GET; an error for anything but 200 or no answer."""
        with urllib3.PoolManager(retries=False, timeout=30, cert_reqs="CERT_NONE") as pool:
            answer = pool.request("GET", f"{self.url}{path}")
        assert answer.status == 200, (path, answer.status, answer.data[:300])
        return answer.data

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path))

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.ask("/api/v1/targets")
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return True

    def samples(self, name: str) -> Mapping[str, float]:
        """Return the values of one of its own metrics by their labels as written."""
        lines = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)", self.ask("/metrics").decode(), re.MULTILINE)
        return {labels: float(value) for labels, value in lines}

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def written_bytes(self) -> int:
        """Return what it has had written to disk so far."""
        found = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{self.process.pid}/io").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def end(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def under_load(url: str, profile: LoadProfile) -> Iterator[None]:
    """Send a Triton its load until the context is left."""
    stop = threading.Event()
    thread = threading.Thread(target=run_load, args=(url, profile), kwargs={"stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def serving(settings: Path, port: int, *, patience: float = 60.0, tls: bool = False) -> Iterator[Serving]:
    """Run `diag serve` with a settings file that listens on `port` of the loopback, until the context is left."""
    log = settings.with_suffix(".log")
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*DIAG, "serve", "--config.file", str(settings)], env=environment(), stdout=file, stderr=file
        )
    one = Serving(process, f"http{'s' * tls}://127.0.0.1:{port}", log)
    try:
        until(one.ready, patience, "readiness")
        yield one
    finally:
        if process.poll() is None:
            one.kill()
