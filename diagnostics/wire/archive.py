"""The members of a tar stream, by the little of its headers that a reader of files needs.

The standard library's reader follows every extension: it recurses into chains of long names, keeps all headers that
are global, builds maps of sparse files, and searches headers in quadratic time. Here a header costs what it is long.
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
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from diagnostics.errors import CaptureError
from diagnostics.settings.text_file import up_to

if TYPE_CHECKING:
    from typing_extensions import Buffer


BLOCK = 512
MAX_HEADER_BYTES = 2**20
"""Of one extended header; names are far shorter, and other attributes are not looked at."""
MAX_RECORDS = 1_000_000
"""Of all pax headers: tar writes up to five for each of 200,000 members."""
_RECORD = re.compile(rb"(\d{1,7}) ([^=]*+)")
_END = bytes(BLOCK)
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_ENCODING = ("utf-8", "surrogateescape")
_REGULAR, _LONG_NAME, _SPARSE = b"0\0007", b"L", b"S"
_EXTENDED = b"xXgKL"
"""pax headers of one member and of all, and GNU's long links and names: about the member that follows."""
_OF_ONE = b"xX"


class Damage(Exception):
    """The archive ends early or is corrupt from here on; what was read before is whole."""


class PackedTooWell(Damage):
    """The archive unpacks to so many times its size that only its beginning is read."""


class TarSource(Protocol):
    """Bytes that are read once."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        ...


class TarMember(NamedTuple):
    """One member.

    Attributes:
        name: as the archive has it.
        size: bytes of its content.
        regular: whether it is a file whose content lies in one piece.

    """

    name: str
    size: int
    regular: bool


class TarStream:
    """Reads members one after another. The content of each is to be read before the next, or is passed over."""

    def __init__(self, source: TarSource) -> None:
        self._source, self._unread, self._padding = source, 0, 0
        self._records = MAX_RECORDS

    def members(self) -> Iterator[TarMember]:
        """Yield each member, extended headers too: as none that is regular, so that they can be counted.

        Raises:
            Damage: a header is corrupt, or there is no end mark.

        """
        name, size, sparse = "", None, False
        while (block := self._header()) != _END:
            kind, length, own = _fields(block)
            self._unread, self._padding = length, -length % BLOCK
            if kind in _EXTENDED:
                yield TarMember("", length, regular=False)
                found = self._about(kind, length)
                name, size, sparse = found[0] or name, size if found[1] is None else found[1], sparse or found[2]
                continue
            if kind == _SPARSE:
                self._pass_over_map(block)
            if size is not None:
                length, self._unread, self._padding = size, size, -size % BLOCK
            regular = kind in _REGULAR and not sparse and not own.endswith("/")
            yield TarMember(name or own, length, regular)
            name, size, sparse = "", None, False

    def content(self) -> bytes:
        """Return the content of the member that was yielded last.

        Raises:
            Damage: the archive ends before it does.

        """
        size, self._unread = self._unread, 0
        return self._exactly(size)

    def _header(self) -> bytes:
        while self._unread + self._padding > 0:
            passed = len(self._source.read(min(self._unread + self._padding, 2**16)))
            if not passed:
                raise Damage("unexpected end of data")
            self._unread -= passed
        self._unread = self._padding = 0
        return self._exactly(BLOCK, "the archive has no end mark")

    def _exactly(self, size: int, missing: str = "unexpected end of data") -> bytes:
        part = self._source.read(size) if size else b""
        if len(part) == size:
            return part
        parts, left = [part], size - len(part)
        while left:
            part = self._source.read(left)
            if not part:
                raise Damage(missing)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _about(self, kind: bytes, length: int) -> tuple[str, int | None, bool]:
        """Return name, size and whether it is sparse, as an extended header has them of the next member."""
        if length > MAX_HEADER_BYTES:
            raise Damage("an extended header of more than 1 MiB")
        name, size, sparse, records = _extended(kind, self.content())
        self._records -= records
        if self._records < 0:
            raise Damage(f"extended headers of more than {MAX_RECORDS:,} records")
        return name, size, sparse

    def _pass_over_map(self, block: bytes) -> None:
        more = block[482]
        while more:
            more = self._exactly(BLOCK)[504]


@lru_cache(maxsize=64)
def _fields(block: bytes) -> tuple[bytes, int, str]:
    """Return kind, size of the content and name of a header. Headers that repeat, as small archives pack, cost less."""
    if not _is_whole(block):
        raise Damage("bad header: bad checksum")
    return block[156:157], _number(block[124:136]), _name(block)


def _name(block: bytes) -> str:
    name = block[:100].partition(b"\0")[0]
    if block[345] and block[257:263] == b"ustar\0":
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return name.decode(*_ENCODING)


def _number(field: bytes) -> int:
    """Return a number in octal digits, or in binary as GNU has large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if not digits:
        return 0
    try:
        return int(digits, 8) if digits.isdigit() else _refuse("number")
    except ValueError:
        return _refuse("number")


def _is_whole(block: bytes) -> bool:
    """Return whether a header's checksum is the sum of its bytes, of its own field taken for blanks.

    Some programs sum signed bytes; theirs is accepted too.
    """
    field = block[148:156]
    # The lower half of Adler-32 is 1 plus the sum modulo 65,521 (RFC 1950, 8.2), which 256 bytes stay below. It is
    # ten times as fast as `sum`, which would be most of what a member costs.
    halves = (zlib.adler32(block[:256]) & 0xFFFF) + (zlib.adler32(block[256:]) & 0xFFFF) - 2
    unsigned, found = halves - sum(field) + 8 * ord(" "), _number(field)
    return found == unsigned or found == unsigned - 256 * (BLOCK - len(block.translate(None, _BEYOND_ASCII)))


@lru_cache(maxsize=8)
def _extended(kind: bytes, data: bytes) -> tuple[str, int | None, bool, int]:
    """Return name, size and whether it is sparse, of the next member, and how many records were read."""
    if kind == _LONG_NAME:
        return data.partition(b"\0")[0].decode(*_ENCODING), None, False, 0
    return _pax(data) if kind in _OF_ONE else ("", None, False, 0)


def _pax(data: bytes) -> tuple[str, int | None, bool, int]:
    """Return path, size, whether it is sparse, and the number of records `LENGTH KEY=VALUE`, each looked at once."""
    name, size, sparse, at, records = "", None, False, 0, 0
    while at < len(data) and data[at]:
        found = _RECORD.match(data, at)
        end = at + int(found[1]) if found else 0
        if found is None or end <= found.end():
            raise Damage("bad header: invalid extended header")
        key = found[2]
        if key == b"path":
            name = data[found.end() + 1 : end - 1].decode(*_ENCODING)
        elif key == b"size":
            value = data[found.end() + 1 : end - 1]
            size = int(value) if value.isdigit() and len(value) < 20 else _refuse("size")
        sparse = sparse or key.startswith(b"GNU.sparse.")
        at, records = end, records + 1
    return name, size, sparse, records


def _refuse(what: str) -> int:
    raise Damage(f"bad header: impossible {what}")


MAX_MEMBERS = 200_000
"""A day of two bodies a second; a listing of more is an attack on memory."""
MAX_BODY_BYTES = 64 * 2**20
"""A metrics page of a thousand models with summaries is below 8 MiB, a trace export below 16."""
MAX_TOTAL_BYTES = 2 * 2**30
"""Unpacked: a day of a fifty-model page every ten seconds, and still read within a minute."""
PACKED_TIMES, ALWAYS_BYTES = 64, 256 * 2**20
"""Of an archive so many times its own size, and at least so much, are unpacked: recordings of busy servers unpack to 20
to 30 times their size, those of many idle models to some hundred times, of which this is the beginning (ours)."""
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
        path: a folder or an archive, recognised by content.
        wanted: whether the file at a path inside is to be read.
        most: bytes of the largest of these; `MAX_BODY_BYTES` by default.
        depth: how many folders below a folder are looked into; None for all.

    Raises:
        CaptureError: the path cannot be read, is no archive, breaks a bound, or names a path outside itself.
        Damage: the archive is damaged; everything whole before was yielded.

    """
    most = MAX_BODY_BYTES if most is None else min(most, MAX_BODY_BYTES)
    try:
        found = path.stat()
        mode = found.st_mode
        if stat.S_ISREG(mode) and not found.st_size:
            raise CaptureError("is empty (0 bytes)", where=str(path), hint="record it again, or copy it again")
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
    for folder, folders, names in os.walk(path, onerror=_refuse_member):
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


def _refuse_member(error: OSError) -> None:
    raise error


def _read_bounded(file: Path, inside: str, path: Path, most: int) -> bytes:
    body = up_to(file, most + 1, follow=False)  # it may have become a pipe, or a link to elsewhere, meanwhile
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
        except PackedTooWell:
            raise
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
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise CaptureError(f"refused: it names a path outside itself: {name[:60]!a}", where=str(path))
    return "/".join(parts) or "."


class _Bounded(io.RawIOBase):
    """What an archive is read from: unpacked bytes, until there are too many."""

    def __init__(self, source: _Source, path: Path) -> None:
        super().__init__()
        self._source, self._path = source, path
        self._left = self._most = min(MAX_TOTAL_BYTES, ALWAYS_BYTES + PACKED_TIMES * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, room: Buffer, /) -> int:
        view = memoryview(room)
        data = self._source.read1(len(view))
        self._left -= len(data)
        if self._left < 0:
            if self._most == MAX_TOTAL_BYTES:
                raise _too_much(self._path)
            raise PackedTooWell(f"of so small a file, the first {self._most >> 20} MiB are read")
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
    """Return whether the first bytes of what gzip packed are a tar's, or too damaged to know."""
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
