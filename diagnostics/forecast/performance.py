"""What is forecast of a deployment: latency end to end and per stage, each number with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from diagnostics.evidence.ledger import least_worthwhile

# A model that is off by less than half of what is worth a change neither makes one worth it nor unmakes it.
_NEAR = 0.5
# Share of the measured mean. A model that lacks more than half of what was measured lacks the main cause of it: then
# neither its interval nor an order of settings says anything of the server.
MOST_MISSED = 0.5
# An interval leaves out one of twenty draws.
_LEFT_OUT = 1 / 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with the interval that holds it with 90 % probability.

    Attributes:
        value: the number, in the unit of its field.
        low: lower end of the interval.
        high: upper end; None where there is none, as of a queue that may not be stable.

    """

    value: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePerformance:
    """What requests experience at one stage, and what it does.

    Attributes:
        model: the stage's model.
        queue_mean: mean seconds in its queue per visit; None where the stage cannot keep up.
        queue_p95: 95th percentile of the same.
        compute_mean: mean seconds of the execution that a request is part of, engine time included.
        busy_share: share of time an instance is occupied; of an engine, in which it iterates.
        batch_size_mean: items per execution; of an engine, running requests; None where nothing executes.
        refused_per_second: requests that its queue policy rejects.
        stable: whether the stage keeps up with what is offered.
        engine: whether it is an engine, which runs many requests side by side.

    """

    model: str
    queue_mean: Estimate | None
    queue_p95: Estimate | None
    compute_mean: Estimate
    busy_share: Estimate
    batch_size_mean: float | None
    refused_per_second: float
    stable: bool
    engine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLatency:
    """What requests experience in an engine; None where it cannot keep up.

    Attributes:
        first_token: mean seconds to the first token, by the clock of the entry.
        first_token_p95: 95th percentile of the same.
        per_token: mean seconds of an output token after the first.
        queue: mean seconds until the engine begins with a request.
        running: mean requests that have a slot.
        cache_share: mean share of the KV cache that is in use; None where its size is not known.
        preempted: how often a running request is put back for lack of cache, per request.

    """

    first_token: Estimate | None
    first_token_p95: Estimate | None
    per_token: Estimate | None
    queue: Estimate | None
    running: Estimate
    cache_share: Estimate | None
    preempted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What requests to one entry experience, by the server's own clock.

    Attributes:
        entry: the ensemble or model that is called.
        mean: seconds end to end; None, as the percentiles, where the deployment cannot keep up.
        p50: median.
        p95: 95th percentile.
        p99: 99th percentile.
        throughput: answered requests per second.
        rejected: rejected requests per second.
        stages: in the order of the ensemble's steps.
        mean_most: the most mean seconds that a window of the measured length showed in any draw, those included in
            which a stage does not keep up; None where none was drawn.
        drawn: mean seconds end to end of each draw, in their order; None where a stage does not keep up in it. Empty
            for a formula.
        engine: of an entry with one engine, first tokens and the time between tokens, where they are predicted.

    """

    entry: str
    mean: Estimate | None
    p50: Estimate | None
    p95: Estimate | None
    p99: Estimate | None
    throughput: Estimate
    rejected: float
    stages: tuple[StagePerformance, ...]
    mean_most: float | None = None
    drawn: tuple[float | None, ...] = ()
    engine: EngineLatency | None = None

    def beyond(self, mean_seconds: float) -> float:
        """Return the seconds by which a measured mean lies outside the interval of this one; infinite without any.

        Where it has no upper end, since a queue might grow: beyond what one that does came to in a window as long.
        """
        if self.mean is None:
            return inf
        high = self.mean.high if self.mean.high is not None else self.mean_most
        return max(self.mean.low - mean_seconds, mean_seconds - (inf if high is None else high), 0.0)

    def accounts_for(self, mean_seconds: float) -> bool:
        """Say whether a measured mean is within the interval of this one, or so near that no change hangs on it."""
        return self.beyond(mean_seconds) <= _NEAR * least_worthwhile(mean_seconds)

    def misses(self, mean_seconds: float | None) -> bool:
        """Say whether more than half of a measured mean lies outside the interval of this one; False if None."""
        return mean_seconds is not None and self.beyond(mean_seconds) > MOST_MISSED * mean_seconds

    @property
    def refused_share(self) -> float:
        """The share of requests that are rejected."""
        everything = self.rejected + self.throughput.value
        return self.rejected / everything if everything > 0 else 0.0

    @property
    def stable(self) -> bool:
        """Whether every stage keeps up."""
        return all(stage.stable for stage in self.stages)


def saving(before: Performance, after: Performance) -> Estimate | None:
    """Return the mean seconds that a change takes off a request, with the interval of the difference.

    Draws of the same number are compared with each other: they share each value of what is not known and their random
    numbers (common random numbers, Law and Kelton, "Simulation Modeling and Analysis", 11.2). What both sides have in
    common is then in neither end. Negative seconds are lost.

    None without draws, and where a side has no steady state, or may have none with the change. Without an upper end
    where only the present settings may have none.
    """
    if before.mean is None or after.mean is None or len(before.drawn) != len(after.drawn):
        return None
    value, few = before.mean.value - after.mean.value, _LEFT_OUT * len(before.drawn)
    pairs = [
        (was, now) for was, now in zip(before.drawn, after.drawn, strict=True) if was is not None and now is not None
    ]
    if not pairs or after.drawn.count(None) > few:
        return None
    found = [value, *(was - now for was, now in pairs)]
    return Estimate(value=value, low=min(found), high=None if before.drawn.count(None) > few else max(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a change would do to one entry.

    Attributes:
        baseline: the model's own account of the window as it was, so that both sides err alike.
        predicted: the same with the change.
        measured_mean: mean seconds end to end that were measured in the window; None where unknown.
        measured_p95: the 95th percentile that traces showed, in seconds; None without traces.
        assumptions: what the numbers rest on, one sentence each.

    """

    baseline: Performance
    predicted: Performance
    measured_mean: float | None
    measured_p95: float | None = None
    assumptions: tuple[str, ...]

    @property
    def misses(self) -> bool:
        """Whether the model's account of the window misses most of what was measured in it."""
        return self.baseline.misses(self.measured_mean)
