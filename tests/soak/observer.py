"""What being observed costs a real Triton: its processor seconds with and without reads, in alternating blocks.

    python -m tests.soak.observer [--pairs 12] [--seconds 15] [--rounds-per-second 20]

The server runs the healthy reference deployment under steady load. Of each pair of blocks, one is observed: rounds are
read as the service reads them, but far more often, so that what they cost stands out of what the load costs. Which one
comes first alternates, so that a drift of the load's cost cancels out. Told are the processor seconds of all of the
server's processes per 1,000 rounds, and the share of a core at an interval of 10 s.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from diagnostics.loadgen.driving import run_load
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover

TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL = 10.0
# Between two blocks, so that what was under way at the end of one is not counted in the other.
REST = 0.5
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One block without reads and one with. Seconds of processor time, and rounds of reads.

    Attributes:
        alone: what the server used unobserved.
        observed: what it used while it was read.
        rounds: how often it was read.

    """

    alone: float
    observed: float
    rounds: int

    @property
    def each(self) -> float:
        """Seconds of processor time that one round cost."""
        return (self.observed - self.alone) / self.rounds


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


def block(pid: int, seconds: float, read: Callable[[], object] | None, pause: float) -> tuple[float, int]:
    """Return the server's processor seconds in a block, and how many rounds were read in it."""
    time.sleep(REST)
    before, begun, rounds = processor_seconds(pid), time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        if read is not None:
            read()
            rounds += 1
        time.sleep(max(0.0, now + pause - time.monotonic()))
    # A round that was late made the block longer: both kinds are told for the same time.
    return (processor_seconds(pid) - before) * seconds / (time.monotonic() - begun), rounds


def measured(pid: int, read: Callable[[], object], requested: argparse.Namespace) -> list[Pair]:
    """Return pairs of blocks, every second one with the observed block first."""
    pause, found = 1.0 / requested.rounds_per_second, list[Pair]()
    for number in range(requested.pairs):
        blocks = {}
        for observed in (False, True) if number % 2 == 0 else (True, False):
            blocks[observed] = block(pid, requested.seconds, read if observed else None, pause)
        pair = Pair(alone=blocks[False][0], observed=blocks[True][0], rounds=blocks[True][1])
        found.append(pair)
        print(
            f"{number + 1:4} {pair.alone:8.2f} s {pair.observed:8.2f} s {pair.rounds:7} {pair.each * 1e3:8.2f} ms",
            flush=True,
        )
    return found


def interval_of(each: Sequence[float], seed: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of the mean: percentiles of the means of pairs drawn with replacement (bootstrap)."""
    draw = random.Random(seed)
    means = sorted(statistics.fmean(draw.choices(each, k=len(each))) for _ in range(RESAMPLES))
    return means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1]


def reported(pairs: Sequence[Pair], seconds: float) -> str:
    """Return what a round costs, and how sure that is."""
    each = [pair.each for pair in pairs]
    mean, (low, high) = statistics.fmean(each), interval_of(each)
    alone, observed = (statistics.fmean(getattr(pair, name) for pair in pairs) for name in ("alone", "observed"))
    return "\n".join(
        (
            f"server alone:           {alone / seconds:8.3f} of a core",
            f"server observed:        {observed / seconds:8.3f} of a core",
            f"per 1,000 rounds:       {mean * 1e3:8.2f} processor seconds, "
            f"95 % within {low * 1e3:.2f} to {high * 1e3:.2f}",
            f"at a {INTERVAL:g} s interval:   {mean / INTERVAL:8.4%} of a core, "
            f"95 % within {low / INTERVAL:.4%} to {high / INTERVAL:.4%}",
        )
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=12, help="of blocks")
    options.add_argument("--seconds", type=float, default=15.0, help="of a block")
    options.add_argument("--rounds-per-second", type=float, default=20.0, help="in observed blocks")
    requested = options.parse_args()
    environment = find_environment()
    if environment is None:
        print("there is no environment of a Triton: make triton", file=sys.stderr)
        return 3
    fault, stop = load_fault("healthy"), threading.Event()
    steady = replace(fault.load, duration=2 * requested.pairs * (requested.seconds + 5.0) + 60.0)
    with TritonLauncher(environment, fault) as server:
        load = threading.Thread(target=run_load, args=(server.http_url, steady), kwargs={"stop": stop})
        load.start()
        try:
            target = discover(server.http_url, SourceOptions())
            target.round()  # configurations are read once
            time.sleep(5)
            print("pair    alone    observed  rounds  a round", flush=True)
            print(reported(measured(server.pid, target.round, requested), requested.seconds))
        finally:
            stop.set()
            load.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
