"""Reads a file that a person named, whole and bounded: a device named by mistake must not fill the memory."""

from __future__ import annotations

from pathlib import Path

from diagnostics.errors import UsageError, reason_of

LARGEST_FILE = 2**20
"""Of what a person wrote, which is small."""


def text_of(file: Path, encoding: str = "utf-8") -> str:
    """Return the text of `file`.

    Raises:
        UsageError: it cannot be read, is larger than `LARGEST_FILE` bytes, or is no text in this encoding.

    """
    try:
        return bytes_of(file, LARGEST_FILE).decode(encoding)
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=str(file)) from None


def bytes_of(file: Path, most: int, hint: str = "") -> bytes:
    """Return what `file`, or a pipe, holds.

    Args:
        file: which one.
        most: bytes, whole MiB.
        hint: what to do about one that is larger.

    Raises:
        UsageError: it cannot be read, or is larger.

    """
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(file)) from None
    if len(data) > most:
        raise UsageError(f"is larger than {most // 2**20} MiB", where=str(file), hint=hint)
    return data
