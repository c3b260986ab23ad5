"""A deployment's model fitted from evidence: what is simulated, what is doubtful about it, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics.errors import EXIT_COLLECT, DiagError
from diagnostics.forecast.sharing import SharedDevice
from diagnostics.tuning.simulation.scenario import Scenario
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


def nested_calls(said: str, where: str) -> Unpredictable:
    """Return that calls from inside executions keep something from being forecast; `said` is whose, and why."""
    return Unpredictable(said, where=f"model {where}", hint="measure the change on a server of its own")
