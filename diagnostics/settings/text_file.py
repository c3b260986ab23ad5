"""Reads a file that a person wrote, which is small: a device or a recording named by mistake must not fill memory."""

from __future__ import annotations

from pathlib import Path

from diagnostics.errors import UsageError, reason_of

LARGEST_FILE = 2**20


def text_of(file: Path, encoding: str = "utf-8") -> str:
    """Return the text of `file`.

    Raises:
        UsageError: it cannot be read, is larger than `LARGEST_FILE` bytes, or is no text in this encoding.

    """
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(file)) from None
    if len(data) > LARGEST_FILE:
        raise UsageError(f"is larger than {LARGEST_FILE // 2**20} MiB", where=str(file))
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=str(file)) from None
