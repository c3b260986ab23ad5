"""What the process takes of the system: memory (mallopt(3); glibc, malloc/arena.c) and open files."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading
from collections.abc import Callable
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


# Looking costs nothing, and giving back some milliseconds where much was freed (measured: 20 ms of 200 MiB).
LOOK_EVERY = 0.25
GROWN = 32 * 2**20
"""Bytes: a twentieth of what a flood may take. For less, threads that allocate are not held up (ours)."""


def share_arenas() -> bool:
    """Have all threads of this process allocate from a few arenas; return whether the C library took it.

    To be called before threads are started. Other C libraries than glibc have no such arenas, and are left alone.
    """
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, ARENAS))


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None where it has none of that name."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found


class FreedMemory:
    """A part of the daemon. Gives back to the system what was freed below something that is kept (malloc_trim(3)).

    Of itself glibc gives back only what lies above everything that is in use: after a flood, a few small things keep
    hundreds of megabytes.
    """

    def __init__(self) -> None:
        self._trim = _of_glibc("malloc_trim")
        self._stopped = threading.Event()
        self._least = resident_bytes()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join()

    def look(self) -> None:
        """Give back what was freed, if the process has grown since the last time."""
        now = resident_bytes()
        if self._trim is not None and now > self._least + GROWN:
            self._trim(0)
            self._least = resident_bytes()
        else:
            self._least = min(self._least, now)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            self.look()


def resident_bytes() -> float:
    """Return the memory of this process (proc(5), statm); NaN where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return float("nan")
