"""One file of recorded bodies while it is written: a capture of format 1 that is whole after every scrape.

It is a plain tar. A member reaches the file in one piece or, when the disk is full, not at all; what a killed process
left half-written is cut off when the service starts again.
"""

from __future__ import annotations

import contextlib
import json
import os
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path

from diagnostics.store.raw import OPEN, SegmentFile
from diagnostics.window.rolling import LASTING
from diagnostics.wire.capture_layout import MANIFEST, MILLISECOND, Places, component, content, scrape_at
from diagnostics.wire.capture_writer import FORMAT
from diagnostics.wire.records import BodyKind, Scrape

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
# Within the first round nothing is judged yet: what is read in it lies where every reader of captures looks for it.
_FIRST_ROUND = 5.0
# A clock that is slewed gains less in a segment's time.
CLOCK_STEP = 0.5
LARGEST_BYTES = 256 * 2**20
MOST_MEMBERS = 50_000
Key = tuple[str, BodyKind, str]


class OpenSegment:
    """Takes scrapes of one deployment. For use by one thread.

    Attributes:
        path: where it is written.
        size: bytes so far, all of them whole members.
        opened: steady seconds of when it was made.

    """

    def __init__(self, folder: Path, name: str, run: str, first: Scrape, lasting: Iterable[Scrape]) -> None:
        """Begin a file with what still holds.

        Args:
            folder: the deployment's.
            name: the deployment's.
            run: identifies a run of the service: steady clocks of two runs cannot be compared.
            first: what will be added first; the segment begins with its time.
            lasting: the newest configuration, metadata and repository bodies.

        Raises:
            OSError: there is no room, or no permission.

        """
        folder.mkdir(parents=True, exist_ok=True)
        self._first, self._last_at, self.opened = first, first.at, time.monotonic()
        self._top = component(name).strip(".") or "capture"
        self._about = {"format": FORMAT, "name": name, "window_from": first.at, "run": run, "steady_from": first.mono}
        self._targets: dict[str, None] = {}
        self._places, self._kept = Places(), dict[Key, bytes | None]()
        self.size, self._synced, self._torn = 0, 0, False
        self.path, self._fd = _created(folder, first.at)
        try:
            self._put(MANIFEST, self._manifest(finished=False), first.at)
            for scrape in lasting:
                self._keep(scrape, later=False)
        except OSError:
            os.close(self._fd)
            self.path.unlink(missing_ok=True)
            raise

    def add(self, scrape: Scrape) -> None:
        """Write one scrape.

        Raises:
            OSError: there is no room; the file is as it was before.

        """
        self._keep(scrape, later=scrape.at > self._first.at + _FIRST_ROUND)
        self._last_at = max(self._last_at, scrape.at)

    def over(self, scrape: Scrape, seconds: float) -> bool:
        """Return whether this scrape belongs to another file: time or size is over, or the clock was set."""
        first = self._first
        drift = (scrape.at - scrape.mono) - (first.at - first.mono)
        full = self.size > LARGEST_BYTES or len(self._places) > MOST_MEMBERS
        return full or scrape.mono - first.mono >= seconds or abs(drift) > CLOCK_STEP

    def sync(self) -> None:
        """Have the disk take what was written, if anything was.

        Raises:
            OSError: the disk does not.

        """
        if self.size != self._synced:
            os.fdatasync(self._fd)
            self._synced = self.size

    def close(self) -> Path:
        """Finish the file and return the path under which it then lies. A file that cannot be finished stays as it is.

        Raises:
            OSError: there is no room for its end.

        """
        try:
            self._put(MANIFEST, self._manifest(finished=True), self._last_at)
            self._append(_END)
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
        return _named(self.path, self._first.at, self._last_at)

    def _keep(self, scrape: Scrape, *, later: bool) -> None:
        key = (scrape.server, scrape.kind, scrape.name)
        if scrape.kind in LASTING and scrape.body is not None and self._kept.get(key) == scrape.body:
            return
        body = content(scrape)
        path = self._places.reserve(scrape, body, later=later)
        if path is not None:
            self._put(path, body, scrape.at)
        if scrape.kind in LASTING:
            self._kept[key] = scrape.body
        if scrape.server:
            self._targets[scrape.server] = None

    def _put(self, path: str, body: bytes, at: float) -> None:
        member = tarfile.TarInfo(f"{self._top}/{path}")
        member.size, member.mtime = len(body), max(int(at), 0)
        head = member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        self._append(head + body + bytes(-len(body) % _BLOCK))

    def _append(self, data: bytes) -> None:
        if self._torn:
            os.ftruncate(self._fd, self.size)
        self._torn = True
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with contextlib.suppress(OSError):  # else it is cut off before the next member
                os.ftruncate(self._fd, self.size)
            raise
        self._torn = False
        self.size += len(data)

    def _manifest(self, *, finished: bool) -> bytes:
        ends = {"window_to": self._last_at if finished else None, "targets": [{"name": name} for name in self._targets]}
        return json.dumps(self._about | ends, indent=1).encode()


def mended(path: Path) -> Path | None:
    """Cut off what a killed process left half-written, and finish the file.

    Returns:
        Where it then lies; None when nothing in it was whole, and it is gone.

    Raises:
        OSError: there is no room for its end, or no permission.

    """
    end, times = _whole(path)
    if len(times) < 2:  # its beginning, and nothing after it
        path.unlink()
        return None
    with path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(_END)
        file.flush()
        os.fsync(file.fileno())
    return _named(path, min(times), max(times))


def _whole(path: Path) -> tuple[int, list[float]]:
    """Return where the last whole member ends, and the times of all."""
    started = SegmentFile.of(path)
    good, offset, times = 0, 0, list[float]()
    size = path.stat().st_size
    with path.open("rb") as file:
        while True:
            file.seek(offset)
            member = _header(file.read(_BLOCK))
            if member is None:
                return good, times
            offset += _BLOCK + -(-member.size // _BLOCK) * _BLOCK
            if offset > size:
                return good, times
            if member.type == tarfile.GNUTYPE_LONGNAME:
                continue  # whole only with the member that it names
            good = offset
            if times or started is None:
                times += _times(member)
            else:
                times = [started.start]


def _times(member: tarfile.TarInfo) -> list[float]:
    inside = member.name.partition("/")[2]
    found = scrape_at(inside, b"", 0.0)
    return [found.at] if found and found.at > 0 else []


def _header(block: bytes) -> tarfile.TarInfo | None:
    if len(block) < _BLOCK or not any(block):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None


def _created(folder: Path, at: float) -> tuple[Path, int]:
    start = round(at / MILLISECOND)
    while True:
        path = folder / f"{start}{OPEN}"
        if not any(folder.glob(f"{start}[-.]*")):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        start += 1


def _named(path: Path, start: float, end: float) -> Path:
    """Give a finished file the name that states its end."""
    stem = path.name.removesuffix(OPEN).partition("-")[0]
    finished = path.with_name(f"{stem}-{round(max(end, start) / MILLISECOND)}{OPEN}")
    path.rename(finished)
    return finished
