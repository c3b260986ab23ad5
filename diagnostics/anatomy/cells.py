"""What an anatomy is made of: entries, their stages, and the cells of time in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf


class Phase(StrEnum):
    """What a request does in a stage. `gap` is time between stages that no member accounts for."""

    QUEUE = "queue"
    INPUT = "input"
    COMPUTE = "compute"
    OUTPUT = "output"
    ENGINE = "engine"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 95th percentile of traced requests, seconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Mean seconds that a request of the entry spends in one model, by phase.

    Attributes:
        model: the member.
        cells: seconds by phase. From traces, of the requests' critical path: a branch that others outlast adds none.
        spread: median and tail of each phase, and of the engine; empty without traces.
        path_share: share of the requests whose critical path leads through it; None without traces.
        gap_seconds: mean time on the critical path between the stage before and this one.
        visits: how often a request passes through it, one visit after another; cells are of all of them together.
        most_seconds: the most that shortening it can save of a request: less than its cells where a branch beside it
            takes as long.
        caller: the model that calls it from inside its executions; empty for a step of the entry itself.
        beside: whether longer calls of the same caller run beside it: then its time is in theirs, and its cells are 0.

    """

    model: str
    cells: Mapping[Phase, float]
    spread: Mapping[Phase, Spread] = field(default_factory=dict)
    path_share: float | None = None
    gap_seconds: float = 0.0
    visits: float = 1.0
    most_seconds: float = inf
    caller: str = ""
    beside: bool = False

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(self.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """One entry's requests: an ensemble's, or those that call a model directly (`ensemble` None).

    Attributes:
        server: which server.
        ensemble: its name; None for a model that is called directly.
        requests: how many were completed, by the counters.
        mean_seconds: their mean time at the server; of an orchestration, at its caller where that is known.
        stages: the members in order.
        unattributed_seconds: what no stage accounts for.
        source: where the cells are from: `statistics`, `metrics`, `traces`, …
        traced: how many whole traces there are.
        spread: median and tail of the whole request; None without enough traces.
        doubt: why traces that are there were not used; empty when they were, or there are none.
        most_queued_seconds: the most that could be saved if nobody waited for any stage: less than all queues where
            branches run beside each other.

    """

    server: str
    ensemble: str | None
    requests: float
    mean_seconds: float
    stages: tuple[Stage, ...]
    unattributed_seconds: float
    source: str
    traced: int = 0
    spread: Spread | None = None
    doubt: str = ""
    most_queued_seconds: float = inf

    def stage(self, model: str) -> Stage | None:
        """Return a member's stage, None when it is not one."""
        return next((stage for stage in self.stages if stage.model == model), None)
