"""Models that call others from inside their executions, by formulas.

A caller's instances are the customers of a closed network: each is in its own part, or in one of its calls. Mean value
analysis gives the rate at which so many of them end executions (Reiser & Lavenberg 1980). Seen from outside, the caller
is one server of that rate, which depends on how many are inside: the flow equivalent of Chandy, Herzog and Woo 1975
(Lazowska et al., Quantitative System Performance, chapter 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from diagnostics.forecast.closed_form import Offer, StageNumbers
from diagnostics.forecast.load import drain_seconds
from diagnostics.forecast.performance import Estimate
from diagnostics.tuning.simulation.scenario import Model, Scenario

# A callee that cannot keep up is the limit, however many instances its caller has: these are looked at as if it just
# could, at a load at which a single server's mean wait is nine times its service time.
_JUST = 0.9
# More instances than these inside at once change no rate any more.
_MOST_INSIDE = 512
_CERTAIN = 2.0


@dataclass(frozen=True, slots=True)
class _Station:
    """A called model as its caller's instances find it.

    `times` calls per execution take `spaced` seconds of the station, at which others wait, and `passing` seconds more;
    each waits for `window` seconds whoever else calls.
    """

    model: str
    times: int
    spaced: float
    passing: float
    window: float
    scv: float


@dataclass(frozen=True, slots=True)
class _Inside:
    """A caller's instances, by how many are inside: executions per second, and seconds of each at the stations."""

    rates: Sequence[float]
    seconds: Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _Waits:
    """Mean seconds that an execution waits for an instance, and inside for each called model; who waits, as a share."""

    queue: float
    calls: Mapping[str, float]
    waiting: float


def with_callers(
    scenario: Scenario, found: Mapping[str, StageNumbers], rates: Mapping[str, float], offer: Offer
) -> Mapping[str, StageNumbers]:
    """Return the stages with the waits of callers and in their calls, the innermost callers first.

    Args:
        scenario: what is forecast.
        found: each stage by itself, callers with their own part.
        rates: items per second that reach each model.
        offer: how requests come.

    """
    stages, holds = dict(found), dict[str, float]()
    models = {model.name: model for model in scenario.models}
    for name, called in scenario.calls.items():
        rate = rates.get(name, 0.0)
        stations = [
            _station(models[one], times, stages[one], holds.get(one), rates.get(one, 0.0) - times * rate)
            for one, times in Counter(called).items()
        ]
        stages.update(_numbers(models[name], stages, stations, replace(offer, rate=rate)))
        inside = sum(s.spaced + s.passing for s in stations)
        waits = (stages[s.model].queue for s in stations)
        waited = sum(s.times * q.value for s, q in zip(stations, waits, strict=True) if q is not None)
        holds[name] = stages[name].compute.value + inside + waited
    return stages


def _station(model: Model, times: int, stage: StageNumbers, holds: float | None, others: float) -> _Station:
    """Return a called model; requests that others send it leave less of its time."""
    seconds = stage.compute.value if holds is None else holds
    each = drain_seconds(model) if holds is None else holds / model.instances
    left = max(1 - max(others, 0.0) * each, 1 - _JUST)
    window = min(stage.queue.value, model.batcher.delay_seconds) if model.batcher and stage.queue else 0.0
    return _Station(
        model=model.name,
        times=times,
        spaced=times * each / left,
        passing=times * max(seconds - each, 0.0),
        window=window,
        scv=model.service_scv,
    )


def _numbers(
    model: Model, stages: Mapping[str, StageNumbers], stations: Sequence[_Station], offer: Offer
) -> Mapping[str, StageNumbers]:
    """Return the numbers of a caller and of what it calls; a callee that cannot keep up stays so."""
    own = stages[model.name]
    alone = own.compute.value + sum(one.passing + one.times * one.window for one in stations)
    full = any(stages[station.model].queue is None for station in stations)
    slowest = max(station.spaced for station in stations)
    rate = min(offer.rate, _JUST / slowest) if full and slowest > 0 else offer.rate
    if rate <= 0:
        return {}
    inside = _inside(alone, stations, min(model.instances, _MOST_INSIDE))
    spread = _CERTAIN / sqrt(rate * offer.span) if offer.span > 0 else 0.0
    scv = max(stations, key=lambda one: one.spaced).scv
    even = (offer.scv * offer.burst + scv) / 2
    likely, least, most = (_waits(inside, rate * factor, even) for factor in (1.0, max(1 - spread, 0.0), 1 + spread))
    if likely is None:
        return {model.name: replace(own, queue=None, busy=1.0)}
    held = alone + sum(station.spaced for station in stations) + sum(likely.calls.values())
    made = {
        model.name: replace(
            own,
            queue=_between(likely.queue, least.queue if least else 0.0, most.queue if most else None),
            busy=min(rate * (held + model.service.dispatch_gap) / model.instances, 1.0),
            variance=own.variance + likely.queue**2 * (2 / max(likely.waiting, 1e-3) - 1),
        )
    }
    for one in stations:
        stage, name = stages[one.model], one.model
        if stage.queue is not None:
            each = [None if w is None else one.window + w.calls[name] / one.times for w in (likely, least, most)]
            made[name] = replace(stage, queue=_between(each[0] or 0.0, each[1] or 0.0, each[2]))
    return made


def _between(value: float, low: float, high: float | None) -> Estimate:
    return Estimate(value=value, low=min(low, value), high=None if high is None else max(high, value))


def _inside(alone: float, stations: Sequence[_Station], instances: int) -> _Inside:
    """Return what so many instances do at once, by mean value analysis; no more than the slowest station can."""
    most = 1 / max(station.spaced for station in stations)
    lengths = [0.0] * len(stations)
    rates, seconds = [0.0], [dict.fromkeys((station.model for station in stations), 0.0)]
    for count in range(1, instances + 1):
        each = [one.spaced * (1 + length) for one, length in zip(stations, lengths, strict=True)]
        rate = min(count / (alone + sum(each)), most)
        lengths = [rate * one for one in each]
        rates.append(rate)
        seconds.append({one.model: time for one, time in zip(stations, each, strict=True)})
    return _Inside(rates, seconds)


def _waits(inside: _Inside, rate: float, even: float) -> _Waits | None:
    """Return the waits of independent requests, as a birth and death process has them; None where they grow.

    `even` is what steadier arrivals and executions leave of them (Allen & Cunneen 1978).
    """
    instances = len(inside.rates) - 1
    if rate <= 0 or rate >= inside.rates[-1]:
        return _Waits(0.0, dict.fromkeys(inside.seconds[0], 0.0), 0.0) if rate <= 0 else None
    chances, part = [1.0], 1.0
    for count in range(1, instances + 1):
        part *= rate / inside.rates[count]
        chances.append(part)
    left = rate / inside.rates[-1]
    beyond = part * left / (1 - left)
    whole = sum(chances) + beyond
    within = (sum(chances) - part) / whole
    waiting = 1 - within
    queue = part / whole * left / (1 - left) ** 2 / rate
    # What is at work ends executions at its rate: by that, not by time, requests see how many are inside.
    weights = [chance * inside.rates[count] for count, chance in enumerate(chances)]
    weights[-1] += beyond * inside.rates[-1]
    ended = sum(weights)
    calls = {
        name: max(
            sum(w * each[name] for w, each in zip(weights, inside.seconds, strict=True)) / ended
            - inside.seconds[1][name],
            0.0,
        )
        for name in inside.seconds[1]
    }
    return _Waits(queue * even, {name: seconds * even for name, seconds in calls.items()}, waiting)
