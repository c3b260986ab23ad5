"""What is to be measured, and in which order."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.bench.estimate import MOST_BLOCKS
from diagnostics.demo.load import LoadProfile, schedule
from diagnostics.errors import UsageError

# One process of Python on one core sends about a thousand requests a second; past that it measures itself.
MOST_RATE = 1000.0
# Each open request holds a file descriptor, and select() takes none above 1,023.
MOST_CLIENTS = 512
# A run's answers are held at about 300 bytes each: so many take as much memory as a small machine has to spare.
MOST_REQUESTS = 1_000_000
# Longer blocks would show no less noise than more blocks do, and are lost as a whole.
LONGEST_SECONDS = 3600.0
# Arrivals of a rate in a block follow from seed, rate and block alone, so that both targets get the same ones.
_SEED_STRIDE = 7919


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep.

    Attributes:
        loads: ascending; clients of a closed loop, else requests per second.
        closed: whether each client sends when its last request was answered; else arrivals are a Poisson process.
        seconds: measured time of a run.
        warm_up: seconds of the same load right before it, which count for nothing.
        blocks: how often each load is run.
        seed: of arrivals and order.
        request_timeout: seconds after which a request has failed.

    Raises:
        UsageError: the numbers describe no load, or one that a single client cannot send exactly.

    """

    loads: tuple[float, ...]
    closed: bool
    seconds: float = 10.0
    warm_up: float = 2.0
    blocks: int = 3
    seed: int = 1
    request_timeout: float = 30.0

    def __post_init__(self) -> None:
        where, most = ("--concurrency", float(MOST_CLIENTS)) if self.closed else ("--rate", MOST_RATE)
        for load in self.loads:
            if not (math.isfinite(load) and load > 0) or (self.closed and load != int(load)):
                raise UsageError(f"{load:g} is no load", where=where, hint="give numbers above 0, as in 1,2,4,8")
            if load > most:
                hint = "run several diag bench from several machines for more"
                raise UsageError(
                    f"{load:g} is more than one client can send exactly ({most:g})", where=where, hint=hint
                )
        self._refuse_length()
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(f"give 1 to {MOST_BLOCKS}", where="--blocks")

    def _refuse_length(self) -> None:
        whole = self.warm_up + self.seconds
        if whole > LONGEST_SECONDS:
            hint = "measure more --blocks instead"
            raise UsageError(f"a block has {LONGEST_SECONDS:g} s at most", where="--duration, --warm-up", hint=hint)
        if self.closed:
            return
        if max(self.loads) * whole > MOST_REQUESTS:
            hint = "give a shorter --duration, and more --blocks"
            what = f"{max(self.loads):g} a second for {whole:g} s are more than {MOST_REQUESTS:,} requests"
            raise UsageError(what, where="--rate", hint=hint)
        if min(self.loads) * self.seconds < 1:
            what = f"{min(self.loads):g} a second leave a block of {self.seconds:g} s without a request"
            raise UsageError(what, where="--rate", hint="give a longer --duration")

    def order(self, targets: int) -> Iterator[tuple[float, int, int]]:
        """Yield load, block and target of each run.

        Blocks are complete and in random order inside (Fisher, The Design of Experiments, 1935): what drifts meanwhile,
        such as a clock or a neighbour, is in no load and in no target more than in another.
        """
        chance = random.Random(self.seed)  # noqa: S311 - an order that repeats, not a secret
        for block in range(self.blocks):
            for load in chance.sample(self.loads, len(self.loads)):
                for target in chance.sample(range(targets), targets):
                    yield load, block, target

    def arrivals(self, load: float, block: int) -> tuple[float, ...]:
        """Return the seconds after a run's start at which requests are due, warm-up first; empty in a closed loop."""
        if self.closed:
            return ()
        whole = self.warm_up + self.seconds
        return schedule(LoadProfile(rate=load, duration=whole, seed=self.seed * _SEED_STRIDE + block))

    @property
    def total_seconds(self) -> float:
        """How long all runs on one target take at least."""
        return len(self.loads) * self.blocks * (self.warm_up + self.seconds)
