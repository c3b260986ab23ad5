"""Series for the unit tests of rules: what a model or a machine shows while something is wrong, and while it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnostics import names
from diagnostics.gen.alert import Situation, series

SAFETY: Mapping[str, str] = {"instance": "triton-0:8002", "job": "triton", "model": "safety", "version": "1"}
OTHER_INSTANCE = "triton-1:8002"
_AFTER_MINUTES = 3
# Longer than the range of the rules, so that nothing of the time before is left in it.
_PAST_MINUTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSeries:
    """One series: a gauge of that value, or a counter that grows by `value` each minute."""

    value: float
    counter: bool = False


Load = Mapping[str, ExampleSeries]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePhase:
    """A load for some minutes; counters go on from where they were, or from 0 after a restart."""

    load: Load
    minutes: int
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What identifies one alert.

    Attributes:
        labels: labels of the alert that fires on `bad`.
        bad, good: loads under which its expression holds, and does not.
        first: the minute at which it first holds.
        few: as bad, with too few events to judge by; None where it counts no events.
        restarts: whether it counts, and so must go on through a restart, which sets counters to 0.

    """

    labels: Mapping[str, str]
    bad: Load
    good: Load
    first: int = 1
    few: Load | None = None
    restarts: bool = False


def model_load(
    labels: Mapping[str, str] = SAFETY,
    *,
    requests: float = 600,
    queue_ms: int = 1,
    compute_ms: int = 20,
    batch: int = 1,
    failed: float = 0,
    pending: int = 0,
) -> Load:
    """Return the series of a model that answers `requests` and fails `failed` requests each minute."""
    compute, queue = requests * compute_ms * 1000, requests * queue_ms * 1000
    counters = {
        names.REQUEST_SUCCESS: requests,
        names.INFERENCE_COUNT: requests,
        names.EXECUTION_COUNT: requests / batch,
        names.REQUEST_DURATION: queue + compute,
        names.QUEUE_DURATION: queue,
        names.INPUT_DURATION: 0,
        names.INFER_DURATION: compute,
        names.OUTPUT_DURATION: 0,
    }
    failure = series(names.REQUEST_FAILURE, {**labels, names.REASON: "BACKEND"})
    return {
        **{series(name, labels): ExampleSeries(value=value, counter=True) for name, value in counters.items()},
        failure: ExampleSeries(value=failed, counter=True),
        series(names.PENDING_REQUESTS, labels): ExampleSeries(value=pending),
    }


def gauges(labels: Mapping[str, str], values: Mapping[str, float]) -> Load:
    """Return a gauge for each metric."""
    return {series(name, labels): ExampleSeries(value=value) for name, value in values.items()}


def engine_load(labels: Mapping[str, str], *, waiting: int, scheduled: int, most: int = 8, paused: int = 0) -> Load:
    """Return the gauges of an engine that iterates."""
    requests = {"waiting": waiting, "scheduled": scheduled, "max": most, "active": waiting + scheduled}
    iterations = {**labels, names.ENGINE_GENERAL_TYPE: "iteration_counter"}
    return {
        **{
            series(names.ENGINE_REQUESTS, {**labels, names.ENGINE_REQUEST_TYPE: kind}): ExampleSeries(value=value)
            for kind, value in requests.items()
        },
        series(names.ENGINE_INFLIGHT, {**labels, names.ENGINE_INFLIGHT_TYPE: "paused_requests"}): ExampleSeries(
            value=paused
        ),
        series(names.ENGINE_GENERAL, iterations): ExampleSeries(value=1800, counter=True),
    }


def situations(example: Example, hold: int) -> tuple[Situation, ...]:
    """Return how an alert that holds for `hold` minutes must behave on the example, beside a replica that is well."""
    fires, labels = example.first + hold, (example.labels,)
    well = {name.replace(example.labels["instance"], OTHER_INSTANCE): line for name, line in example.good.items()}
    bad, good = {**example.bad, **well}, {**example.good, **well}
    minutes = fires + _AFTER_MINUTES
    found = [
        Situation(
            title="fires once it has held long enough and not before, for one of two replicas, and resolves",
            series=rendered([ExamplePhase(load=bad, minutes=minutes), ExamplePhase(load=good, minutes=_PAST_MINUTES)]),
            expect=((fires - 1, ()), (fires, labels), (minutes + _PAST_MINUTES - 1, ())),
        )
    ]
    if example.restarts:
        again = ExamplePhase(load=bad, minutes=minutes, restarted=True)
        found.append(
            Situation(
                title="goes on through a restart of both, which makes none of the other",
                series=rendered([ExamplePhase(load=bad, minutes=fires + 1), again]),
                expect=tuple((fires + later, labels) for later in range(_AFTER_MINUTES + 1)),
            )
        )
    if example.few:
        found.append(
            Situation(
                title="stays silent on too few events to judge by",
                series=rendered([ExamplePhase(load=example.few, minutes=fires + _PAST_MINUTES)]),
                expect=((fires + _PAST_MINUTES - 1, ()),),
            )
        )
    return tuple(found)


def rendered(phases: Sequence[ExamplePhase]) -> Mapping[str, str]:
    """Return each series of the phases in promtool's notation, a sample per minute."""
    every = dict.fromkeys(name for phase in phases for name in phase.load)
    return {name: _samples(name, phases) for name in every}


def _samples(name: str, phases: Sequence[ExamplePhase]) -> str:
    parts, last = [], None
    for phase in phases:
        line, further = phase.load.get(name), phase.minutes - 1
        if line is None:
            parts.append(f"_x{phase.minutes}")
        elif line.counter:
            start = 0 if last is None or phase.restarted else last + line.value
            parts.append(f"{_number(start)}+{_number(line.value)}x{further}")
            last = start + line.value * further
        else:
            parts.append(f"{_number(line.value)}x{further}")
    return " ".join(parts)


def _number(value: float) -> str:
    # An exponent's sign would read as a step.
    return f"{value:.6f}".rstrip("0").rstrip(".")
