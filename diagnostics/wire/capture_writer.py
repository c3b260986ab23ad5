"""Writes a capture of format 1 as it is recorded, so that an interrupted recording is a valid capture."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import signal
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Protocol, Self, cast

from diagnostics.errors import CaptureError, UsageError
from diagnostics.wire.archive import MAX_BODY_BYTES, MAX_MEMBERS, MAX_TOTAL_BYTES
from diagnostics.wire.capture_layout import MANIFEST, Places, content
from diagnostics.wire.records import BodyKind, Scrape

FORMAT = 1
_ARCHIVES = {".tar": "tar", ".tar.gz": "gz", ".tgz": "gz", ".tar.xz": "xz", ".txz": "xz"}
_OTHER_ARCHIVES = (".zip", ".gz", ".xz", ".bz2", ".zst", ".7z", ".json")


class CaptureWriter:
    """Records scrapes into a folder, `.tar`, `.tar.gz` or `.tar.xz`, as the path's name says.

    Use it as a context manager: however the block ends, Ctrl-C included, what was added is a whole capture.
    A manifest is written with the first scrape and again at the end, so that even a killed recording opens.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        targets: Sequence[str],
        scrape_interval: float | None,
        *,
        trace_rate: float | None = None,
        overwrite: bool = False,
    ) -> None:
        """Open the capture.

        Args:
            path: where to write.
            name: the capture's name; also the archive's top folder.
            targets: names of the servers.
            scrape_interval: seconds between scrapes.
            trace_rate: one of how many requests is traced; None when none is.
            overwrite: whether an existing archive may be replaced.

        Raises:
            UsageError: the path exists, cannot be written, or names another kind of archive.

        """
        self.path = path
        self._about = {
            "format": FORMAT,
            "name": name,
            "scrape_interval_s": scrape_interval,
            "targets": [{"name": target} for target in targets],
            "trace_rate": trace_rate,
        }
        self._times: list[float] = []
        self._places = Places()
        self._client: list[bytes] = []
        self._total = 0
        self._sink = _open_sink(path, name, overwrite)
        self._closed = False
        self.clock_stepped = 0.0
        """By how many seconds the recorder's clock was set forward meanwhile; bodies keep the time it had at first."""

    def add(self, scrape: Scrape) -> None:
        """Write one scrape; a failed read is kept too, as evidence.

        Raises:
            CaptureError: the disk is full, or the capture has reached the size that readers accept.

        """
        with _uninterrupted(), self._writing():
            if not self._times:
                self._times = [scrape.at, scrape.at]
                self._sink.write(MANIFEST, self._manifest(finished=False), scrape.at)
            self._times = [min(self._times[0], scrape.at), max(self._times[1], scrape.at)]
            self._keep(scrape)

    def close(self) -> None:
        """Write what is known only at the end. Closing twice is harmless.

        Raises:
            CaptureError: the disk is full.

        """
        with _uninterrupted(), self._writing():
            if self._closed:
                return
            self._closed = True
            at = self._times[1] if self._times else 0.0
            try:
                if self._client:
                    self._sink.write("client.jsonl", b"".join(self._client), at)
                self._sink.write(MANIFEST, self._manifest(finished=True), at)
            finally:
                self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self, scrape: Scrape) -> None:
        body = content(scrape)
        if scrape.kind is BodyKind.CLIENT and scrape.body is not None:
            self._client.append(body if body.endswith(b"\n") else body + b"\n")
            return
        path = self._places.reserve(scrape, body)
        if path is None:
            return
        self._refuse_unreadable(len(body))
        self._sink.write(path, body, scrape.at)

    def _refuse_unreadable(self, size: int) -> None:
        self._total += size
        if size > MAX_BODY_BYTES or self._total > MAX_TOTAL_BYTES or len(self._places) + 2 > MAX_MEMBERS:
            raise CaptureError(
                "the recording has reached the largest size that a capture may have",
                where=str(self.path),
                hint="what was recorded until now is a valid capture",
            )

    def _manifest(self, *, finished: bool) -> bytes:
        window = {
            "window_from": self._times[0] if self._times else None,
            "window_to": self._times[1] if self._times and finished else None,
        }
        stepped = {"clock_stepped_s": round(self.clock_stepped, 3)} if self.clock_stepped else {}
        return json.dumps(self._about | window | stepped, indent=1).encode()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CaptureError(f"cannot be written: {error.strerror or error}", where=str(self.path)) from error


class _Sink(Protocol):
    def write(self, path: str, body: bytes, at: float, /) -> None: ...
    def close(self) -> None: ...


class _Folder:
    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise FileExistsError
        self._path = path

    def write(self, path: str, body: bytes, _: float) -> None:
        file = self._path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(file.name + ".partial")
        partial.write_bytes(body)
        partial.replace(file)

    def close(self) -> None:
        """Leave everything as it is: each file was whole when it got its name."""


class _Archive:
    def __init__(self, path: Path, top: str, packing: str, overwrite: bool) -> None:
        self._top, self._files = top, ExitStack()
        with ExitStack() as opened:
            stream: IO[bytes] = opened.enter_context(path.open("wb" if overwrite else "xb"))
            if packing == "gz":
                stream = cast(IO[bytes], opened.enter_context(gzip.GzipFile(fileobj=stream, mode="wb")))
            elif packing == "xz":
                stream = cast(IO[bytes], opened.enter_context(lzma.LZMAFile(stream, "wb")))
            self._stream = stream
            self._tar = opened.enter_context(tarfile.open(fileobj=stream, mode="w"))
            self._files = opened.pop_all()

    def write(self, path: str, body: bytes, at: float) -> None:
        member = tarfile.TarInfo(f"{self._top}/{path}")
        member.size, member.mtime = len(body), int(at)
        self._tar.addfile(member, io.BytesIO(body))
        self._stream.flush()  # a killed recording keeps what was added, as far as the packing allows
        self._tar.members.clear()  # type: ignore[attr-defined]  # else it remembers every member

    def close(self) -> None:
        self._files.close()


def _open_sink(path: Path, name: str, overwrite: bool) -> _Sink:
    lowered = path.name.lower()
    packing = next((kind for suffix, kind in _ARCHIVES.items() if lowered.endswith(suffix)), None)
    if packing is None and lowered.endswith(_OTHER_ARCHIVES):
        raise UsageError("captures are folders, .tar, .tar.gz or .tar.xz", where=str(path), hint="choose another name")
    try:
        if packing is None:
            return _Folder(path)
        return _Archive(path, name.replace("/", "-").strip(".") or "capture", packing, overwrite)
    except FileExistsError as error:
        raise UsageError("exists already", where=str(path), hint="choose another name") from error
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM until a member is whole; only the main thread is interrupted by them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    held = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, remember) for number in held}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for caught in arrived:
            signal.raise_signal(caught)
