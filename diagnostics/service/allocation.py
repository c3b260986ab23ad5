"""What the process takes of the system: memory (mallopt(3); glibc, malloc/arena.c) and open files."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

# malloc.h: which parameter is set.
_M_ARENA_MAX = -8
# Each thread that meets another in an arena gets one of its own, up to eight per processor, and what is freed in one is
# of no use in the others. One thread runs Python at a time: two arenas are enough for those that are not in it.
ARENAS = 2
# Shells and systemd allow 1,024 open files until a program asks for more (systemd.exec(5), LimitNOFILE=), which is few
# for hundreds of servers. More would let silent senders of spans, half a megabyte each in gRPC's library, fill memory.
FILES = 2_048


def open_more_files() -> int:
    """Allow this process as many open files and connections as the system lets it, up to `FILES`; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


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


def resident_bytes() -> float:
    """Return the memory of this process (proc(5), statm); NaN where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return float("nan")
