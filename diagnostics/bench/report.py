"""A whole load test, as it is kept in a file and shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from diagnostics.bench.block import MEASURES, Diagnosis, LoadBlock
from diagnostics.bench.estimate import BlockMean, estimate
from diagnostics.bench.limits import RequestLimits
from diagnostics.bench.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load of a sweep: `load` clients (closed loop) or requests per second (open loop), and its blocks."""

    load: float
    blocks: tuple[LoadBlock, ...]

    def estimate(self, measure: str) -> BlockMean | None:
        """Return a measure of MEASURES over the blocks; None where a block does not have it."""
        return estimate([MEASURES[measure](block) for block in self.blocks])

    def values(self, measure: str) -> list[float]:
        """Return a measure of each block that has it."""
        return [value for block in self.blocks if (value := MEASURES[measure](block)) is not None]

    def diagnosed(self) -> tuple[Diagnosis | None, int]:
        """Return what most blocks were diagnosed as, and how many were; None and 0 where none was looked at.

        A cause is named only where more than half of the blocks have it, else the commonest verdict stands without one.
        """
        found = [block.diagnosis for block in self.blocks if block.diagnosis is not None]
        if not found:
            return None, 0
        cause, count = Counter(one.cause for one in found).most_common(1)[0]
        if cause and 2 * count > len(self.blocks):
            return next(one for one in found if one.cause == cause), count
        verdict, count = Counter(one.verdict for one in found).most_common(1)[0]
        alike = [one for one in found if one.verdict == verdict]
        if not any(one.cause for one in found):
            return alike[0], count
        texts = dict.fromkeys(one.text for one in alike)
        return Diagnosis(verdict=verdict, cause="", text=f"causes differ: {'; '.join(texts)}"), count


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """What one target did with the loads.

    Attributes:
        name: `host:port` of the endpoint.
        model: what was asked.
        protocol: `http`, `grpc` or `generate`.
        workload: what each request was.
        points: by ascending load; those that were not measured are absent.
        notes: what limits the numbers, a sentence each.

    """

    name: str
    model: str
    protocol: str
    workload: Workload
    points: tuple[LoadPoint, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """A load test.

    Attributes:
        schema_version: of the JSON form; a reader of 1 reads all of 1.
        started: Unix seconds.
        loop: `closed` (loads are clients) or `open` (loads are requests per second, arriving as a Poisson process).
        seconds: measured time of a block.
        warm_up: seconds of load before it.
        blocks: how often each load was to be measured.
        seed: of schedules, inputs and order.
        limits: what goodput counts.
        targets: the results; one or two.
        ended: why the test ended before all was measured; empty if all was.

    """

    schema_version: int = 1
    started: float
    loop: Literal["closed", "open"]
    seconds: float
    warm_up: float
    blocks: int
    seed: int
    limits: RequestLimits = field(default_factory=RequestLimits)
    targets: tuple[TargetResult, ...]
    ended: str = ""

    @property
    def silent(self) -> bool:
        """Whether a target that was under load answered no request."""
        blocks = [[block for point in target.points for block in point.blocks] for target in self.targets]
        return any(each and not any(block.throughput for block in each) for each in blocks)

    @property
    def axis(self) -> str:
        """What a load counts."""
        return "clients" if self.loop == "closed" else "requests/s"

    @property
    def head(self) -> str:
        """The same as a column's heading, told apart from what was answered."""
        return "clients" if self.loop == "closed" else "offered/s"
