"""The members of a tar stream, by the little of its headers that a reader of files needs.

The standard library's reader follows every extension: it recurses into chains of long names, keeps all headers that
are global, builds maps of sparse files, and searches headers in quadratic time. Here a header costs what it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

BLOCK = 512
MAX_HEADER_BYTES = 2**20
"""Of one extended header; names are far shorter, and other attributes are not looked at."""
_END = bytes(BLOCK)
_ENCODING = ("utf-8", "surrogateescape")
_REGULAR, _LONG_NAME, _SPARSE = b"0\0007", b"L", b"S"
_EXTENDED = b"xXgKL"
"""pax headers of one member and of all, and GNU's long links and names: about the member that follows."""
_OF_ONE = b"xX"


class Damage(Exception):
    """The archive ends early or is corrupt from here on; what was read before is whole."""


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

    def members(self) -> Iterator[TarMember]:
        """Yield each member, extended headers too: as none that is regular, so that they can be counted.

        Raises:
            Damage: a header is corrupt, or there is no end mark.

        """
        name, size, sparse = "", None, False
        while (block := self._header()) != _END:
            kind, length = block[156:157], _number(block[124:136])
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
            regular, own = kind in _REGULAR and not sparse, _name(block)
            yield TarMember(name or own, length, regular and not own.endswith("/"))
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
        block = self._exactly(BLOCK, "the archive has no end mark")
        if block != _END and _number(block[148:156]) not in _checksums(block):
            raise Damage("bad header: bad checksum")
        return block

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
        data = self.content()
        if kind == _LONG_NAME:
            return data.partition(b"\0")[0].decode(*_ENCODING), None, False
        return _pax(data) if kind in _OF_ONE else ("", None, False)

    def _pass_over_map(self, block: bytes) -> None:
        more = block[482]
        while more:
            more = self._exactly(BLOCK)[504]


def _name(block: bytes) -> str:
    name, prefix = block[:100].partition(b"\0")[0], block[345:500].partition(b"\0")[0]
    whole = prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name
    return whole.decode(*_ENCODING)


def _number(field: bytes) -> int:
    """Return a number in octal digits, or in binary as GNU has large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if digits.strip(b"01234567"):
        raise Damage("bad header: invalid number")
    return int(digits or b"0", 8)


def _checksums(block: bytes) -> tuple[int, int]:
    """Return the sum of a header's bytes, its own field taken for blanks; and as the programs with signed bytes do."""
    unsigned = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    return unsigned, unsigned if block.isascii() else unsigned - 256 * sum(byte > 0x7F for byte in block)


def _pax(data: bytes) -> tuple[str, int | None, bool]:
    """Return path, size and whether it is sparse from records `LENGTH KEY=VALUE`, each looked at once."""
    name, size, sparse, at = "", None, False, 0
    while at < len(data) and data[at]:
        blank = data.find(b" ", at, at + 8)
        length = data[at:blank]
        if blank < 0 or not length.isdigit() or int(length) <= len(length) + 1:
            raise Damage("bad header: invalid extended header")
        key, _, value = data[blank + 1 : at + int(length) - 1].partition(b"=")
        if key == b"path":
            name = value.decode(*_ENCODING)
        elif key == b"size":
            size = int(value) if value.isdigit() and len(value) < 20 else _refuse()
        sparse = sparse or key.startswith(b"GNU.sparse.")
        at += int(length)
    return name, size, sparse


def _refuse() -> int:
    raise Damage("bad header: impossible size")
