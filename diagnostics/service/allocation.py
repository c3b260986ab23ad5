"""Keeps the C library from holding memory that the service has let go of (mallopt(3); glibc, malloc/arena.c)."""

from __future__ import annotations

import ctypes
import sys

# malloc.h: which parameter is set.
_M_ARENA_MAX = -8
# Each thread that meets another in an arena gets one of its own, up to eight per processor, and what is freed in one is
# of no use in the others. One thread runs Python at a time: two arenas are enough for those that are not in it.
ARENAS = 2


def share_arenas() -> bool:
    """Have all threads of this process allocate from a few arenas; return whether the C library took it.

    To be called before threads are started. Other C libraries than glibc have no such arenas, and are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, ARENAS))
