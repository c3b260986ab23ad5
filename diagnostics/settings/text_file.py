"""Reads a file that a person named, whole and bounded: a device named by mistake must not fill the memory.

TOML is bounded before it is parsed, as the work of Python's parser grows with a key's depth squared.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
import tomllib
from pathlib import Path
from typing import Any

from diagnostics.errors import UsageError, reason_of

DEEPEST_KEY = 32
"""Parts of a dotted key or of a table's name: settings have three, projects a few more."""
# A part begins where no other can be going on, and is read for a bounded length: the search is linear.
_PART = r"""(?:[A-Za-z0-9_-]{1,256}+|"(?:[^"\\\n]|\\.){0,256}+"|'[^'\n]{0,256}+')"""
_DEEP = re.compile(rf"(?<![A-Za-z0-9_\\-]){_PART}(?:[ \t]{{0,9}}+\.[ \t]{{0,9}}+{_PART}){{{DEEPEST_KEY}}}")


def toml_of(text: str) -> dict[str, Any]:
    """Return the tree in a TOML document.

    Raises:
        ValueError: it is not TOML, or its keys or values are nested too deeply.

    """
    if deep := _DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a key of more than {DEEPEST_KEY} parts is nested too deeply (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


LARGEST_FILE = 2**20
"""Of what a person wrote, which is small."""


PATIENCE = 60.0
"""Seconds without a byte after which a pipe is given up, though somebody has it open: a command that begins slowly."""
PATIENCE_FOR_A_WRITER = 5.0
"""Seconds after which a pipe is given up that nobody has opened for writing, or closed again without a byte."""
_PAUSE, _CHUNK = 0.02, 2**16


def up_to(file: Path, most: int, *, follow: bool = True) -> bytes:
    """Return the first `most` bytes that `file`, or a pipe, holds; `follow` False refuses a symbolic link.

    Raises:
        OSError: it cannot be read, or nothing comes through the pipe.

    """
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        if stat.S_ISFIFO(os.fstat(handle).st_mode):
            return _piped(handle, most)
        os.set_blocking(handle, True)
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(handle)


def _piped(handle: int, most: int) -> bytes:
    parts, left, last = [], most, time.monotonic()
    while left:
        patience = PATIENCE_FOR_A_WRITER
        try:
            part = os.read(handle, min(left, _CHUNK))
        except BlockingIOError:
            part, patience = None, PATIENCE
        if part:
            parts.append(part)
            left, last = left - len(part), time.monotonic()
        elif part == b"" and parts:
            break
        elif time.monotonic() > last + patience:
            raise OSError(errno.ETIMEDOUT, f"nothing came through the pipe for {patience:g} s")
        else:
            select.select([handle] if part is None else [], [], [], _PAUSE)
    return b"".join(parts)


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
        data = up_to(file, most + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(file)) from None
    if len(data) > most:
        raise UsageError(f"is larger than {most // 2**20} MiB", where=str(file), hint=hint)
    return data
