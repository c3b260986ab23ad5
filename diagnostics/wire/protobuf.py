"""Protobuf's fields as they lie in a message's bytes, whatever the message: its library is not loaded for them."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import DecodeError

_WITH_LENGTH = 2
_FIXED = {1: 8, 5: 4}
"""Bytes of a field by how it is written."""


def delimited_fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field that has a length, where the field begins, and where its content does and ends.

    The number of any other field is 0, which none has.

    Raises:
        DecodeError: one ends after `end`, or is written as nothing is.

    """
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        kind, length = tag & 7, 0
        if kind == _WITH_LENGTH:
            length, at = _varint(data, at, end)
        elif kind in _FIXED:
            length = _FIXED[kind]
        elif kind == 0:
            _, at = _varint(data, at, end)
        else:
            raise DecodeError("a group, which no exporter writes")
        if at + length > end:
            raise DecodeError("cut off")
        yield tag >> 3 if kind == _WITH_LENGTH else 0, begin, at, at + length
        at += length


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise DecodeError("cut off")
