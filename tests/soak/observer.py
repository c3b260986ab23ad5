"""What being observed costs a real Triton: its processor seconds with and without reads, in alternating blocks.

    python -m tests.soak.observer [--blocks 6] [--seconds 30]

The server runs the healthy reference deployment under steady load. In every other block each endpoint is read as often
as it goes, so that the difference stands out; told are the seconds per 1,000 rounds and the share at a 10 s interval.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.load import run_load
from diagnostics.demo.server import TritonLauncher
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover

TICKS = os.sysconf("SC_CLK_TCK")
# Rounds a second while it is observed: far more than any interval asks for.
ROUNDS_A_SECOND = 5.0
INTERVAL = 10.0


def processor_seconds(root: int) -> float:
    """Return what a process and all below it have used, those that ended included."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15])) / TICKS
    family, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        family.append(pid)
        waiting += parents.get(pid, [])
    return sum(used.get(pid, 0.0) for pid in family)


def block(pid: int, seconds: float, read: object = None) -> tuple[float, int]:
    """Return the server's processor seconds in a block, and how many rounds were read in it."""
    before, end, rounds = processor_seconds(pid), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if read is not None:
            read()  # type: ignore[operator]
            rounds += 1
        time.sleep(1.0 / ROUNDS_A_SECOND)
    return processor_seconds(pid) - before, rounds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--blocks", type=int, default=6, help="of each kind")
    options.add_argument("--seconds", type=float, default=30.0, help="of a block")
    asked = options.parse_args()
    environment = find_environment()
    if environment is None:
        print("there is no environment of a Triton: make triton", file=sys.stderr)
        return 3
    fault, stop = load_fault("healthy"), threading.Event()
    long = replace(fault.load, duration=2 * asked.blocks * asked.seconds + 60.0)
    with TritonLauncher(environment, fault) as server:
        load = threading.Thread(target=run_load, args=(server.http_url, long), kwargs={"stop": stop})
        load.start()
        target = discover(server.http_url, SourceOptions())
        time.sleep(5)
        with_us, without, rounds = list[float](), list[float](), 0
        for _ in range(asked.blocks):
            without.append(block(server.pid, asked.seconds)[0])
            used, read = block(server.pid, asked.seconds, target.round)
            with_us.append(used)
            rounds += read
        stop.set()
        load.join()
    told(with_us, without, rounds / asked.blocks, asked.seconds)
    return 0


def told(with_us: list[float], without: list[float], rounds: float, seconds: float) -> None:
    """Print the difference and how sure it is."""
    pairs = [observed - alone for observed, alone in zip(with_us, without, strict=True)]
    each = statistics.mean(pairs) / rounds
    spread = statistics.stdev(pairs) / len(pairs) ** 0.5 / rounds if len(pairs) > 1 else float("nan")
    print(f"alone {statistics.mean(without):.2f} s, observed {statistics.mean(with_us):.2f} s of {seconds:g} s")
    print(f"per 1,000 rounds: {each * 1000:.2f} ± {spread * 1000:.2f} processor seconds")
    print(f"at an interval of {INTERVAL:g} s: {each / INTERVAL:.4%} of a core")


if __name__ == "__main__":
    sys.exit(main())
