"""Packs finished segments, mends what a killed process left half-written, and deletes what is too old or too much."""

from __future__ import annotations

import lzma
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics.settings.tree import HistorySettings
from diagnostics.store.database import WriteErrors
from diagnostics.store.raw import FOLDER, OPEN, PACKED, PARTIAL, SegmentFile, segments
from diagnostics.store.segment import mended

# Pages of one server repeat at a distance of their own size, beyond what deflate can see: the fastest xz packs twice
# as well as the best gzip, at 50 MB/s.
_PRESET = 0
_CHUNK = 256 * 2**10
SECONDS_BETWEEN_PASSES = 60.0
# A clock that jumps ahead would make everything old at once: for so long nothing is deleted for its age.
JUMP, GRACE = 3600.0, 3600.0


class Packer:
    """Works in a thread of its own, so that neither disk nor processor holds up what is being read."""

    def __init__(
        self,
        settings: HistorySettings,
        trouble: WriteErrors,
        passed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Begin with nothing to do.

        Args:
            settings: where, and how much to keep.
            trouble: called with failures.
            passed: called with each pass and the Unix seconds before which everything is too old.

        """
        self._raw, self._settings = settings.directory / FOLDER, settings
        self._trouble, self._passed = trouble, passed
        # An unfinished file is being written, unless an earlier run left it or its writer gave it up.
        self._left = {one.path for one in self._files() if one.end is None}
        self._wake, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="history-pack", daemon=True)
        self._calendar = Calendar()

    def start(self) -> None:
        """Begin to pack."""
        self._thread.start()

    def notify(self, left: Path | None = None) -> None:
        """Report that a segment was finished, or left unfinished at a path."""
        if left is not None:
            self._left.add(left)
        self._wake.set()

    def stop(self) -> None:
        """End after the file at hand; the rest is packed when the service starts again."""
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def pack_all(self) -> None:
        """Mend and pack everything that is not being written."""
        for one in list(self._files()):
            if self._stopped:
                return
            if one.packed or self._is_written(one):
                continue
            try:
                self._pack(one)
            except OSError as error:
                self._trouble.report("packing recorded bodies", error)
                return  # there is no room; what is not packed can be read all the same
        self._trouble.over("packing recorded bodies")

    def retain(self, now: float, steady: float) -> None:
        """Delete what is older than `keep_raw`, then the oldest beyond `keep_raw_bytes`; never what is being written.

        Args:
            now: Unix seconds.
            steady: a steady clock's seconds, which show whether a clock was set.

        """
        files = sorted(
            (Weighed(file=one, bytes=_size(one.path)) for one in self._files() if not self._is_written(one)),
            key=lambda one: one.file.start,
        )
        total = sum(one.bytes for one in files)
        trusted = self._calendar.trusted(now, steady)
        for one in files:
            end = one.file.end if one.file.end is not None else one.file.start
            if (trusted and end < now - self._settings.keep_raw) or total > self._settings.keep_raw_bytes:
                one.file.path.unlink(missing_ok=True)
                total -= one.bytes

    def _run(self) -> None:
        passed = float("-inf")
        self._guarded(self.clear)
        while not self._stopped:
            self._guarded(self.pack_all)
            if time.monotonic() - passed >= SECONDS_BETWEEN_PASSES:
                passed = time.monotonic()
                self._guarded(self._pass)
            self._wake.wait(SECONDS_BETWEEN_PASSES)
            self._wake.clear()

    def _pass(self) -> None:
        now = time.time()
        self.retain(now, time.monotonic())
        if self._calendar.trusted(now, time.monotonic()):
            self._passed(now)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._trouble.over("tidying recorded bodies")
        except Exception as error:  # noqa: BLE001 - the thread goes on whatever one file is like
            self._trouble.report("tidying recorded bodies", error)

    def clear(self) -> None:
        """Remove what a process left that was killed while it packed: half a packed file, or one beside its source."""
        for partial in self._raw.glob(f"*/*{PARTIAL}"):
            partial.unlink(missing_ok=True)
        for packed in self._raw.glob(f"*/*{PACKED}"):
            packed.with_name(packed.name.removesuffix(PACKED) + OPEN).unlink(missing_ok=True)

    def _is_written(self, one: SegmentFile) -> bool:
        return one.end is None and one.path not in self._left

    def _files(self) -> Iterator[SegmentFile]:
        for folder in sorted(self._raw.iterdir()) if self._raw.is_dir() else ():
            if folder.is_dir():
                yield from segments(folder)

    def _pack(self, one: SegmentFile) -> None:
        path = mended(one.path) if one.end is None else one.path
        self._left.discard(one.path)
        if path is None:
            return
        packed = path.with_name(path.name.removesuffix(OPEN) + PACKED)
        partial = packed.with_name(packed.name + PARTIAL)
        try:
            compress(path, partial)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(packed)
        _sync_folder(packed.parent)
        path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A file and its bytes."""

    file: SegmentFile
    bytes: int


class Calendar:
    """Decides whether the time of day can be believed: not for a while after it jumped ahead of a steady clock."""

    def __init__(self) -> None:
        self._offset: float | None = None
        self._distrusted_until = float("-inf")

    def trusted(self, now: float, steady: float) -> bool:
        """Return whether what is old by this time of day may be deleted."""
        offset = now - steady
        if self._offset is not None and offset - self._offset > JUMP:
            self._distrusted_until = steady + GRACE
        self._offset = offset
        return steady >= self._distrusted_until


def compress(source: Path, target: Path) -> None:
    """Pack a file and have the disk take it.

    Raises:
        OSError: there is no room.

    """
    with source.open("rb") as plain, target.open("wb") as file:
        with lzma.LZMAFile(file, "wb", preset=_PRESET) as packed:
            shutil.copyfileobj(plain, packed, _CHUNK)
        file.flush()
        os.fsync(file.fileno())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
