"""What is measured: a load on a deployment, how it arrives, and which window it is predicted from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.benchmark.deployment import Deployment

INTERVAL_SECONDS = 2.0
SETTLE_SECONDS = 5.0
POINT_SECONDS = 40.0
# On a card, whose time is scarce: its queues are those of tens of milliseconds. A window that others are predicted
# from is twice as long.
CARD_SETTLE_SECONDS = 1.5
CARD_SECONDS = 6.0
REPEATS = 2
# The load goes on so long after the last read, so that this finds the server as the others did.
TAIL_SECONDS = 1.0
# A timer's slack and the way from one execution to the next, which a sleeping stage takes beside its stated time.
DISPATCH_SECONDS = 0.0004


class Pattern(StrEnum):
    """How requests follow each other; `bursts` come at random instants, each of them at once."""

    POISSON = "poisson"
    BURSTS = "bursts"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What clients do.

    Attributes:
        pattern: how requests follow each other.
        rate: requests per second of the open patterns.
        burst: requests of a burst.
        clients: clients of the closed loop, which send their next request when the last was answered.

    """

    pattern: Pattern = Pattern.POISSON
    rate: float = 0.0
    burst: int = 1
    clients: int = 0

    def arrivals(self, seconds: float, seed: int) -> tuple[float, ...]:
        """Return the seconds from the start at which requests are due, ascending; empty for a closed loop.

        The number of bursts is the expected one and their instants are uniform: a Poisson process given its number of
        events (Kingman, Poisson Processes, 1993, §2.4).
        """
        if self.pattern is Pattern.CLOSED:
            return ()
        chance = random.Random(seed)
        bursts = sorted(chance.uniform(0.0, seconds) for _ in range(round(self.rate / self.burst * seconds)))
        return tuple(at for at in bursts for _ in range(self.burst))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration under one load.

    Attributes:
        group: points of a group differ from each other in what is varied and in nothing else.
        name: says what is varied; unique in the group.
        deployment: what is served.
        load: what clients do.
        source: name of the point of the group from whose window this one is predicted.
        cards: how many GPUs its stages compute on; 0 for none.

    """

    group: str
    name: str
    deployment: Deployment
    load: Load
    source: str
    cards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One measurement.

    Attributes:
        name: unique, and a file's name.
        server: jobs of the same server differ in what a running Triton can be given anew.
        deployment: what is served.
        load: what clients do.
        seed: of the arrivals.
        settle: seconds under load before anything is measured.
        seconds: seconds measured.
        rank: jobs of lower rank are wanted first.
        cards: how many GPUs its stages compute on; 0 for none.
        kept: whether what a predictor reads of it is kept too.
        trace_rate: of how many requests one is traced; equal for all jobs of a server.
        interval: seconds between two reads.

    """

    name: str
    server: str
    deployment: Deployment
    load: Load
    seed: int
    settle: float = SETTLE_SECONDS
    seconds: float = POINT_SECONDS
    rank: int = 0
    cards: int = 0
    kept: bool = False
    trace_rate: int = 1
    interval: float = INTERVAL_SECONDS

    @property
    def arrivals(self) -> tuple[float, ...]:
        """When its requests are due, in seconds from its start."""
        return self.load.arrivals(self.load_seconds, self.seed)

    @property
    def load_seconds(self) -> float:
        """For how long requests are sent, seconds from the start."""
        return self.settle + self.seconds + TAIL_SECONDS


def job_name(point: Point, repeat: int) -> str:
    """Return the name of a point's measurement."""
    return f"{point.group}.{point.name}.{repeat}"


def jobs(points: Sequence[Point], seconds: float = POINT_SECONDS) -> list[Job]:
    """Return the measurements of all points; in a repeat, equal loads arrive at the same instants."""
    sources = {(point.group, point.source) for point in points}
    return [
        _job(point, repeat, seconds, kept=repeat == 1 and (point.group, point.name) in sources)
        for repeat in range(1, REPEATS + 1)
        for point in points
    ]


def _job(point: Point, repeat: int, seconds: float, *, kept: bool) -> Job:
    job = Job(
        name=job_name(point, repeat),
        server=point.group,
        deployment=point.deployment,
        load=point.load,
        seed=1000 * repeat + 7,
        seconds=seconds,
        rank=repeat,
        cards=point.cards,
        kept=kept,
    )
    if not point.cards:
        return job
    on_card = 2 * CARD_SECONDS if kept else CARD_SECONDS
    return replace(job, settle=CARD_SETTLE_SECONDS, seconds=min(on_card, seconds), interval=1.0)
