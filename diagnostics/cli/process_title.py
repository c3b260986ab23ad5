"""Keeps secrets of the command line out of the list of processes (`ps`, /proc/*/cmdline)."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path

# proc(5): where the arguments begin and end in memory, as fields after the program's name.
_BEGIN, _END = 48 - 3, 49 - 3
# What is kept, and what is hidden: user and password before a host, with or without a scheme; the value of a header.
_SECRETS = (
    re.compile(rb"((?:\A|\0)(?>[^\0]*?://))([^\0]*)(?=@)"),
    re.compile(rb"(\0)([^\0@:/=-][^\0@:/=]*:[^\0]*)(?=@)"),
    re.compile(rb"(\0--header[\0=][^\0:]*:)([^\0]*)"),
)


def hide_secrets() -> None:
    """Overwrite them in this process's own memory; nothing where the system keeps it elsewhere than Linux does."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        begin, end = int(fields[_BEGIN]), int(fields[_END])
        arguments = Path("/proc/self/cmdline").read_bytes()
        hidden = without_secrets(arguments)
        if hidden != arguments and len(arguments) == end - begin:
            ctypes.memmove(begin, hidden, len(hidden))


def without_secrets(arguments: bytes) -> bytes:
    """Return arguments, each ended by a null byte, with `*` for every byte of a secret."""
    for secret in _SECRETS:
        arguments = secret.sub(lambda found: found[1] + b"*" * len(found[2]), arguments)
    return arguments
