"""Files that a user names: read whole, and bounded."""

from __future__ import annotations

from pathlib import Path

from diagnostics.settings.text_file import bytes_of

MOST_BYTES = 64 * 2**20
"""Twice the largest tokenizer seen; a hundred thousand prompts of a page, and more than any report."""


def read_given(path: Path) -> bytes:
    """Return what a file, or a pipe, holds.

    Raises:
        UsageError: it cannot be read, or holds more than 64 MiB.

    """
    return bytes_of(path, MOST_BYTES, hint="is it the right file?")
