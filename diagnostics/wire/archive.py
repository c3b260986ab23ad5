"""The files of a capture, from a folder or streamed out of an archive: never extracted, always bounded.

An archive comes from somebody else: it may lie about sizes, unpack without end, or name paths outside itself.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Protocol

from diagnostics.errors import CaptureError
from diagnostics.wire.tar_stream import BLOCK, Damage, TarStream

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_MEMBERS = 200_000
"""A day of two bodies a second; a listing of more is an attack on memory."""
MAX_BODY_BYTES = 64 * 2**20
"""A metrics page of a thousand models with summaries is below 8 MiB, a trace export below 16."""
MAX_TOTAL_BYTES = 2 * 2**30
"""Unpacked: a day of a fifty-model page every ten seconds, and still read within a minute."""
XZ_MEMORY_BYTES = 128 * 2**20
"""`xz -9` needs 65 MiB; an archive that asks for gigabytes of dictionary is refused before they are taken."""
ARCHIVES = (".xz", ".gz", ".tar", ".txz", ".tgz")
_CHUNK = 64 * 2**10
_XZ, _GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"
_TAR_MARK = slice(257, 262)
# What the gzip and xz readers of the standard library raise on bytes that are not theirs.
_UNREADABLE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError)
# No part of it is empty or begins with a dot.
_PLAIN_NAME = re.compile(r"[^/.\0][^/\0]*+(?:/[^/.\0][^/\0]*+)*+")
_NOT_AN_ARCHIVE = "neither a folder nor a .tar, .tar.gz or .tar.xz archive"


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def files(
    path: Path, wanted: Callable[[str], bool], most: int = MAX_BODY_BYTES, depth: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield (path inside, content) of each wanted regular file; links and devices are passed over.

    Args:
        path: a folder or an archive, told apart by content.
        wanted: whether the file at a path inside is to be read.
        most: bytes of the largest of these; `MAX_BODY_BYTES` by default.
        depth: how many folders below a folder are looked into; None for all.

    Raises:
        CaptureError: the path cannot be read, is no archive, breaks a bound, or names a path outside itself.
        Damage: the archive is damaged; everything whole before was yielded.

    """
    most = MAX_BODY_BYTES if most is None else min(most, MAX_BODY_BYTES)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from _folder_files(path, wanted, most, depth)
        elif stat.S_ISREG(mode):
            yield from _archive_files(path, wanted, most)
        else:
            raise CaptureError(_NOT_AN_ARCHIVE, where=str(path))
    except OSError as error:
        raise CaptureError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def _folder_files(
    path: Path, wanted: Callable[[str], bool], most: int, depth: int | None
) -> Iterator[tuple[str, bytes]]:
    members, total = 0, 0
    for folder, folders, names in os.walk(path, onerror=_refuse):
        folders.sort()
        if depth is not None and len(Path(folder).relative_to(path).parts) >= depth:
            folders.clear()
        for name in sorted(names):
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            members += 1
            if members > MAX_MEMBERS:
                raise _too_many(path)
            if not stat.S_ISREG(file.lstat().st_mode) or not wanted(inside):
                continue
            body = _read_bounded(file, inside, path, most)
            total += len(body)
            if total > MAX_TOTAL_BYTES:
                raise _too_much(path)
            yield inside, body


def _refuse(error: OSError) -> None:
    raise error


def _read_bounded(file: Path, inside: str, path: Path, most: int) -> bytes:
    with file.open("rb") as stream:
        body = stream.read(most + 1)
    if len(body) > most:
        raise _too_large(inside, path, most)
    return body


def _archive_files(path: Path, wanted: Callable[[str], bool], most: int) -> Iterator[tuple[str, bytes]]:
    with ExitStack() as stack:
        archive = TarStream(io.BufferedReader(_Bounded(_unpacked(path, stack), path), _CHUNK))
        members = headers = 0
        try:
            for member in archive.members():
                headers += 1
                members += bool(member.name)
                # A name that is long has a header of its own, and a size may have another.
                if members > MAX_MEMBERS or headers > 3 * MAX_MEMBERS:
                    raise _too_many(path)
                inside = _inside(member.name, path)
                if not member.regular or not wanted(inside):
                    continue
                if member.size > most:
                    raise _too_large(inside, path, most)
                yield inside, archive.content()
        except (Damage, *_UNREADABLE) as error:
            if not headers:
                hint = "diag explain reads saved pages and logs"
                raise CaptureError(f"{_NOT_AN_ARCHIVE} ({error})", where=str(path), hint=hint) from error
            raise Damage(str(error) or type(error).__name__) from error


def _inside(name: str, path: Path) -> str:
    """Return the normal form of a member's name.

    Raises:
        CaptureError: it leads out of the archive, as no recorder's does.

    """
    if _PLAIN_NAME.fullmatch(name):  # 200,000 of them are normal already
        return name
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise CaptureError(f"refused: it names a path outside itself: {name[:60]!a}", where=str(path))
    return pure.as_posix()


class _Bounded(io.RawIOBase):
    """What an archive is read from: unpacked bytes, until there are too many."""

    def __init__(self, source: _Source, path: Path) -> None:
        super().__init__()
        self._source, self._path, self._left = source, path, MAX_TOTAL_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, room: Buffer, /) -> int:
        view = memoryview(room)
        data = self._source.read1(len(view))
        self._left -= len(data)
        if self._left < 0:
            raise _too_much(self._path)
        view[: len(data)] = data
        return len(data)


class _Xz:
    """Unpacked xz with a bound on memory, which `lzma.open` has not. Gives all there is before it fails."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._unpack = stream, _xz_decompressor()

    def read1(self, size: int, /) -> bytes:
        while True:
            if self._unpack.eof:
                rest = self._unpack.unused_data.lstrip(b"\0") or self._stream.read(_CHUNK).lstrip(b"\0")
                if not rest:
                    return b""
                self._unpack = _xz_decompressor()
                data = self._unpack.decompress(rest, size)
            else:
                packed = self._stream.read(_CHUNK) if self._unpack.needs_input else b""
                if self._unpack.needs_input and not packed:
                    raise EOFError("the compressed data end early")
                data = self._unpack.decompress(packed, size)
            if data:
                return data


def _xz_decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)


def _unpacked(path: Path, stack: ExitStack) -> _Source:
    stream = stack.enter_context(path.open("rb"))
    start = stream.read(len(_XZ))
    stream.seek(0)
    if start == _XZ:
        return _Xz(stream)
    if start.startswith(_GZIP):
        return stack.enter_context(gzip.GzipFile(fileobj=stream))
    return stream


def is_archive(path: Path) -> bool:
    """Return whether a file is packed as a capture is, by its content: anything packed, or a tar; False for a device.

    A capture's name counts too, so that a damaged one is still read as one. What gzip packs and is no tar is a page, an
    answer or a log that somebody saved.

    Raises:
        CaptureError: it cannot be read.

    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as stream:
            start = stream.read(BLOCK)
    except OSError as error:
        raise CaptureError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    named = path.suffix in ARCHIVES
    if start.startswith(_GZIP) and not path.name.endswith((".tar.gz", ".tgz")):
        return _starts_a_tar(start)
    return named or start.startswith((_XZ, _GZIP)) or start[_TAR_MARK] == b"ustar"


def _starts_a_tar(packed: bytes) -> bool:
    """Return whether the first bytes of what gzip packed are a tar's, or too damaged to tell."""
    try:
        start = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, BLOCK)
    except zlib.error:
        return True
    return len(start) > _TAR_MARK.start and start[_TAR_MARK] == b"ustar"


def _too_many(path: Path) -> CaptureError:
    return CaptureError(f"refused: it holds more than {MAX_MEMBERS:,} files", where=str(path))


def _too_much(path: Path) -> CaptureError:
    return CaptureError(f"refused: it unpacks to more than {MAX_TOTAL_BYTES >> 30} GiB", where=str(path))


def _too_large(inside: str, path: Path, most: int) -> CaptureError:
    what = f"refused: {inside[:60]!a} is larger than {most >> 20} MiB"
    return CaptureError(what, where=str(path))
