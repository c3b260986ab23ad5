"""What the process takes of the system."""

from __future__ import annotations

import platform
import re
import resource
import subprocess
import sys

import pytest

from diagnostics.service.allocation import FILES, open_more_files

# Threads that are all at work at once meet in the arenas, and glibc gives each an arena of its own where it may.
MEET = """
import ctypes, threading
from diagnostics.service.allocation import share_arenas
print(share_arenas())
met = threading.Barrier(12)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def work():
    met.wait()
    libc.malloc(100)
    met.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
[one.start() for one in threads]
[one.join() for one in threads]
libc.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_a_dozen_threads_share_two_arenas() -> None:
    done = subprocess.run([sys.executable, "-c", MEET], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
    assert len(re.findall(r"^Arena \d+:", done.stderr, re.MULTILINE)) <= 2


# What is freed lies between small things that are kept.
FREED = """
from diagnostics.service.allocation import FreedMemory, resident_bytes
memory = FreedMemory()
large, kept = [], []
for number in range(2_000):
    large.append(bytes(100_000))
    kept.append(bytes(1_000))
full = resident_bytes()
large.clear()
before = resident_bytes()
memory.look()
print(before > 0.8 * full, resident_bytes() < 0.5 * full)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give back in their own ways")
def test_what_was_freed_between_things_that_are_kept_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True True\n"


def test_as_many_files_may_be_open_as_the_system_lets_a_process_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, FILES) if hard != resource.RLIM_INFINITY else FILES
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_000, most), hard))
        assert open_more_files() == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
