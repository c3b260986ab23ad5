"""Recorded bodies as they lie on disk: which files there are, and what they hold of a span. Reads only.

    <directory>/raw/<deployment>/<start>.tar            being written, or left by a killed process
    <directory>/raw/<deployment>/<start>-<end>.tar      finished
    <directory>/raw/<deployment>/<start>-<end>.tar.xz   packed

Start and end are Unix milliseconds. Each file is a capture of format 1 that can be explained alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from diagnostics.errors import CaptureError
from diagnostics.window.rolling import LASTING
from diagnostics.wire.capture import Capture, Manifest, open_capture
from diagnostics.wire.capture_layout import MILLISECOND, component
from diagnostics.wire.records import BodyKind, Scrape

FOLDER, OPEN, PACKED, PARTIAL = "raw", ".tar", ".tar.xz", ".partial"
_NAME = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?(\.tar|\.tar\.xz)", re.ASCII)
# A file may be packed under another name between its listing and its reading.
_LOOKS = 3
MOST_BYTES = 256 * 2**20
"""Of the bodies of one answer: five minutes of eight servers with 200 KB a second each; one server's hour and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One file of recorded bodies; Unix seconds. `end` is None while it is not finished."""

    path: Path
    start: float
    end: float | None

    @classmethod
    def of(cls, path: Path) -> SegmentFile | None:
        """Return what a path's name says; None for other files."""
        found = _NAME.fullmatch(path.name)
        if found is None:
            return None
        end = int(found[2]) * MILLISECOND if found[2] else None
        return cls(path=path, start=int(found[1]) * MILLISECOND, end=end)

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return self.path.name.endswith(PACKED)


def folder_of(directory: Path, deployment: str) -> Path:
    """Return where a deployment's bodies lie."""
    return directory / FOLDER / component(deployment)


def deployments(directory: Path) -> list[str]:
    """Return the names of all deployments of which there are bodies; none where there is no such directory."""
    raw = directory / FOLDER
    return sorted(unquote(one.name) for one in raw.iterdir() if one.is_dir()) if raw.is_dir() else []


def segments(folder: Path) -> list[SegmentFile]:
    """Return a deployment's files in time order; one that is packed and not yet removed is listed packed."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else ()
    found = {one.start: one for path in paths if (one := SegmentFile.of(path))}  # .tar sorts before .tar.xz
    return [found[start] for start in sorted(found)]


def scrapes(directory: Path, deployment: str, start: float, end: float) -> list[Scrape]:
    """Return the scrapes of `newest_scrapes`."""
    return newest_scrapes(directory, deployment, start, end).scrapes


class Past(NamedTuple):
    """What was recorded of a span; `since` is the Unix second from which on it is complete, None where it is all."""

    scrapes: list[Scrape]
    since: float | None


def newest_scrapes(directory: Path, deployment: str, start: float, end: float, most: int | None = None) -> Past:
    """Return what was read of a deployment in [start, end], Unix seconds, and what still held then.

    Configuration, metadata and repository bodies are the newest before `start` and all until `end`. Steady times are
    comparable among all that is returned. Nothing at all when no file overlaps; damaged parts are left out. Of more
    than `most` bytes (`MOST_BYTES` by default) the newest bodies are returned.
    """
    for _ in range(_LOOKS):
        files = [one for one in segments(folder_of(directory, deployment)) if _overlaps(one, start, end)]
        if all(one.path.exists() for one in files):
            break
    read: list[tuple[Manifest, list[Scrape]]] = []
    left, since = MOST_BYTES if most is None else most, None
    for one in reversed(files):
        if left <= 0:  # what lasts is in each file anew
            since = since or one.end
            break
        for manifest, newest in _read(one.path, start, end, left):
            left -= sum(len(scrape.body or b"") for scrape in newest.scrapes)
            read.insert(0, (manifest, newest.scrapes))
            since = newest.since
        if since is not None:
            break
    timed = list(_between(_steady(read), start, end))
    return Past(sorted(timed, key=lambda scrape: scrape.mono), since)


def newest_end(directory: Path, deployment: str) -> float | None:
    """Return Unix seconds of the newest body of counters; None when there is none."""
    for one in reversed(segments(folder_of(directory, deployment))):
        times = [
            s.at
            for _, found in _read(one.path)
            for s in found.scrapes
            if s.kind in (BodyKind.METRICS, BodyKind.STATISTICS)
        ]
        if times:
            return max(times)
    return None


def oldest_start(directory: Path, deployment: str) -> float | None:
    """Return Unix seconds at which the oldest file begins; None when there is none."""
    return next((one.start for one in segments(folder_of(directory, deployment))), None)


def newest_lasting(directory: Path, deployment: str) -> list[Scrape]:
    """Return the newest configuration, metadata and repository bodies."""
    kept: dict[tuple[str, BodyKind, str], Scrape] = {}
    # The newest file begins with all of them, unless its writer was killed just then.
    for one in segments(folder_of(directory, deployment))[-2:]:
        for _, found in _read(one.path):
            kept |= {(s.server, s.kind, s.name): s for s in found.scrapes if s.kind in LASTING and s.body is not None}
    return list(kept.values())


def _overlaps(one: SegmentFile, start: float, end: float) -> bool:
    return one.start <= end + MILLISECOND and (one.end is None or one.end >= start - MILLISECOND)


def _read(path: Path, start: float = 0.0, end: float = inf, most: int = MOST_BYTES) -> Iterator[tuple[Manifest, Past]]:
    """Yield a file's manifest and its newest scrapes of a span, of at most so many bytes, and all that lasts.

    Nothing of a file that is gone, or was killed before it held anything.
    """
    kept: deque[Scrape] = deque()
    lasting: list[Scrape] = []
    held, since = 0, None
    try:
        capture: Capture = open_capture(path)
        for scrape in capture.scrapes():
            if scrape.kind in LASTING:
                lasting.append(scrape)
            elif start - MILLISECOND <= scrape.at <= end + MILLISECOND:
                kept.append(scrape)
                held += len(scrape.body or b"")
            while kept and held > most:
                gone = kept.popleft()
                held -= len(gone.body or b"")
                while kept and kept[0].at <= gone.at:  # never a part of a round
                    held -= len(kept.popleft().body or b"")
                since = kept[0].at if kept else gone.at
    except CaptureError:
        return
    yield capture.manifest, Past([*lasting, *kept], since)


def _steady(read: Sequence[tuple[Manifest, list[Scrape]]]) -> Iterator[Scrape]:
    """Yield all scrapes with steady times in terms of the newest run, as a service that goes on where one ended does.

    Within a run each file says how the steady clock stood; before it, the time of day is all that is known.
    """
    newest = read[-1][0].run if read else ""
    offsets = [_offset(manifest) for manifest, _ in read]
    earlier = next((offset for (one, _), offset in zip(read, offsets, strict=True) if one.run == newest), 0.0)
    for (manifest, found), offset in zip(read, offsets, strict=True):
        shift = offset if manifest.run == newest else earlier
        yield from (replace(scrape, mono=scrape.at + shift) for scrape in found)


def _offset(manifest: Manifest) -> float:
    if manifest.steady_from is None or manifest.window_from is None:
        return 0.0
    return manifest.steady_from - manifest.window_from


def _between(found: Iterator[Scrape], start: float, end: float) -> Iterator[Scrape]:
    """Yield what counts for a span. Each file begins with what still held: only what is new is passed on."""
    held: dict[tuple[str, BodyKind, str], bytes | None] = {}
    for scrape in found:
        if scrape.kind not in LASTING:
            if start - MILLISECOND <= scrape.at <= end + MILLISECOND:
                yield scrape
            continue
        key = (scrape.server, scrape.kind, scrape.name)
        if scrape.at <= end + MILLISECOND and (scrape.body is None or held.get(key) != scrape.body):
            held[key] = scrape.body
            yield scrape
