"""What a simulation observed, as the server's own clocks would have seen it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutcome:
    """What a model did between the end of the warm-up and the end of the run.

    Attributes:
        waits: seconds each of its requests queued, in the order in which they were taken.
        service: seconds each of its requests spent in the execution it was part of, in the same order; of one that
            had not ended, what it would take alone (0 in an engine).
        executions: executions that began; of an engine, iterations.
        items: items in them; of an engine, the requests in each iteration.
        busy_share: share of time an instance was occupied, dispatch gaps included, mean over instances; where
            executions overlap, in which it computed. Of an engine, the share of time in which it ran anything.
        queue_length: time average of the requests that waited.
        arrived: requests that joined its queue, refused ones included.
        refused: requests turned away by its queue policy (size or timeout).

    """

    waits: Sequence[float]
    service: Sequence[float]
    executions: int
    items: int
    busy_share: float
    queue_length: float
    arrived: int
    refused: int

    @property
    def batch_size_mean(self) -> float | None:
        """Items per execution; None when nothing executed."""
        return self.items / self.executions if self.executions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOutcome:
    """What requests to an entry experienced.

    Attributes:
        latencies: seconds from arrival to answer of each request that arrived after the warm-up and was answered.
        arrived: requests that arrived after the warm-up.
        failed: those of them that a queue policy turned away at some stage.
        answered: requests that were answered after the warm-up, those included that arrived in it.
        in_system: time average of the requests inside (Little's law: rate × mean latency).

    """

    latencies: Sequence[float]
    arrived: int
    failed: int
    answered: int
    in_system: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The run of a scenario.

    Attributes:
        seconds: simulated seconds after the warm-up.
        models: by model.
        entries: by entry.
        stable: False where the requests inside kept growing, so that means depend on the run's length.

    """

    seconds: float
    models: Mapping[str, ModelOutcome]
    entries: Mapping[str, EntryOutcome]
    stable: bool
