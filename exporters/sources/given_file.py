"""Files that a user names: read whole, and bounded."""

from __future__ import annotations

from pathlib import Path

from diagnostics.errors import UsageError, reason_of

MOST_BYTES = 64 * 2**20
"""Twice the largest tokenizer seen; a hundred thousand prompts of a page, and more than any report."""


def read_given(path: Path) -> bytes:
    """Return what a file, or a pipe, holds.

    Raises:
        UsageError: it cannot be read, or holds more than 64 MiB.

    """
    try:
        with path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(path)) from None
    if len(body) > MOST_BYTES:
        raise UsageError(f"is larger than {MOST_BYTES // 2**20} MiB", where=str(path), hint="is it the right file?")
    return body
