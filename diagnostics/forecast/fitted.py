"""A deployment's model fitted from evidence: what is simulated, what is doubtful about it, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from diagnostics.errors import EXIT_COLLECT, DiagError
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.forecast.sharing import SharedDevice
from diagnostics.signals.signal import Signal, Subject
from diagnostics.signals.triton import BATCH_SIZE
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.clock import MOST_EVENTS, Endless
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import Scenario
from diagnostics.tuning.simulation.simulate import simulate
from diagnostics.wire.model_config import ModelConfig

Interval = tuple[float, float]


class Unpredictable(DiagError):
    """Nothing can be forecast of an entry; the message says why, and what to measure next."""

    exit_code = EXIT_COLLECT


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStage:
    """What was measured of one stage; None where it was not.

    Attributes:
        model: the stage's model.
        queue_mean: mean seconds in its queue per visit; of an engine that says so, inside it.
        compute_mean: mean seconds of the execution that a request is part of, an engine's hidden time included.
        busy_share: share of time an instance is occupied.
        batch_size_mean: items per execution.

    """

    model: str
    queue_mean: float | None
    compute_mean: float | None
    busy_share: float | None
    batch_size_mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of an entry in the window, by the server's own clock; None where it was not.

    Attributes:
        mean: seconds end to end.
        p50: median, from traces.
        p95: 95th percentile, from traces.
        throughput: completed requests per second.
        span_seconds: length of the window.
        stages: in the order of the ensemble's steps.

    """

    mean: float | None
    p50: float | None
    p95: float | None
    throughput: float
    span_seconds: float
    stages: tuple[MeasuredStage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDoubt:
    """What is not known of a model.

    Attributes:
        service_scv: bounds of the squared coefficient of variation of an execution's time.
        service_error: standard deviation of the mean execution time from one window to another, as a share of it.
        joining: bounds of the seconds that a joining request adds to an engine's iteration.
        joins: requests that joined per iteration when the iterations' mean time was measured.
        running: requests in an iteration then.
        overtakes: bounds of the share of execution ends at which the batcher looks too early; None where it is known.

    """

    service_scv: Interval
    service_error: float = 0.01
    joining: Interval | None = None
    joins: float = 0.0
    running: float = 1.0
    overtakes: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What draws of the scenario vary, besides the bounds that each service time carries itself.

    Attributes:
        models: by model.
        arrivals: bounds of the arrivals' index of dispersion, by entry; none where they are replayed.
        replayed: entries whose recorded arrivals are replayed: another window's would come otherwise.
        sharing: what executions take of devices that they share.

    """

    models: Mapping[str, ModelDoubt] = field(default_factory=dict)
    arrivals: Mapping[str, Interval] = field(default_factory=dict)
    replayed: frozenset[str] = frozenset()
    sharing: tuple[SharedDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The model of a deployment as it was in the window.

    Attributes:
        server: which server.
        entry: the ensemble or model whose requests are forecast.
        scenario: what is simulated, with central values: service times alone on what is shared.
        doubt: what draws vary.
        measured: what the window showed.
        configs: the configurations by model.
        devices: by model, the devices that each of its instance groups spans.
        assumptions: what the model rests on, one sentence each.
        nested: by model that calls others from inside its executions in a way that is not simulated, or is called so,
            how that is in words. Such a caller's execution is simulated as long as it was, calls included: what a
            change of either does is not.
        untold: models whose instances are all busy, and may wait for a lock that they share: that shows nowhere.
        headroom: by model, the share of its device that was left in the window, at most; none where it was not read.

    """

    server: str
    entry: str
    scenario: Scenario
    doubt: Doubt
    measured: Measured
    configs: Mapping[str, ModelConfig]
    devices: Mapping[str, tuple[int, ...]]
    assumptions: tuple[str, ...]
    nested: Mapping[str, str] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    headroom: Mapping[str, float] = field(default_factory=dict)


def nested_calls(stated: str, where: str) -> Unpredictable:
    """Return that calls from inside executions keep something from being forecast; `said` is whose, and why."""
    return Unpredictable(stated, where=f"model {where}", hint="measure the change on a server of its own")


def outcome_of(scenario: Scenario, *, seconds: float, warmup_seconds: float = 0.0, seed: int = 0) -> SimulationResult:
    """Return what happens in a scenario, as `simulate` does.

    Raises:
        Unpredictable: it takes more events than a run may have.

    """
    try:
        return simulate(scenario, seconds=seconds, warmup_seconds=warmup_seconds, seed=seed)
    except Endless as error:
        raise _endless(scenario) from error


def check_visits(scenario: Scenario, visits: float) -> None:
    """Refuse a scenario whose runs make so many visits to stages altogether, before they are drawn.

    Raises:
        Unpredictable: each is an event at least, and these are more than one run may have.

    """
    if visits > MOST_EVENTS:
        raise _endless(scenario)


def _endless(scenario: Scenario) -> Unpredictable:
    return Unpredictable(
        f"cannot be forecast: its simulation takes more than {MOST_EVENTS} events",
        where=", ".join(entry.name for entry in scenario.entries),
        hint="ask for less load or fewer instances; if it was asked of the window as it is, record one anew",
    )


_PARTS, _FEWEST_PARTS = 8, 4
# By this even undisturbed hosts differ from one window to the next.
_LEAST = 0.01


def drift(evidence: Evidence, on: Subject, signal: Signal, service: ServiceTime | None = None) -> float:
    """Return the standard deviation of a mean time between the eighths of the window, as a share of it.

    What changes from one part of a window to the next (clocks, neighbours, temperature) may as well be other in another
    window. Of executions with a known `service` time, each part's mean is set against that of its own mean batch:
    larger batches take longer without anything having changed. At least a hundredth; that, too, where the window has
    too few reads.
    """
    at = instants(evidence.moments(on.server), _PARTS)
    sizes = series(evidence, BATCH_SIZE, on, at) if service else ()
    due = [service.time(one.reading.value or 1.0) for one in sizes] if service else [1.0] * (len(at) - 1)
    values = [one.reading.value for one in series(evidence, signal, on, at)]
    means = [value / each for value, each in zip(values, due, strict=True) if value is not None and each > 0]
    if len(means) < _FEWEST_PARTS or fmean(means) <= 0:
        return _LEAST
    return max(pstdev(means) / fmean(means), _LEAST)
