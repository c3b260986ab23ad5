"""Draws of a fitted scenario: each with other values of what is not known, all of them within its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from random import Random
from statistics import NormalDist

from diagnostics.forecast.engines import MOST_CROWDING
from diagnostics.forecast.fitted import Doubt, Fitted, Interval, ModelDoubt
from diagnostics.forecast.sharing import CENTRAL, DeviceDemand
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import OVERTAKES, ClosedLoop, Model, OpenLoop, Scenario

# Execution times beyond two standard deviations are left to the draws that an interval may miss.
_TAIL = 0.025
# Recorded queues of instances that are hardly idle are explained by dispatch gaps of 0.03 to 0.2 ms, and a sleeping
# stage's timer adds another 0.05 to 0.2 ms (Triton 2.51): from a fifth of the usual gap to five thirds.
_GAP_RANGE = (1 / 5, 5 / 3)
# Recorded arrivals are drawn anew in blocks of this many: bunches shorter than a block keep their shape.
_BLOCK = 20


@dataclass(frozen=True, slots=True)
class Draw:
    """One of several draws, whose positions between the bounds of what is not known cover them evenly.

    For each unknown, one draw lies in each of as many equal parts of its bounds as there are draws, in an order of its
    own (Latin hypercube sampling, McKay, Beckman and Conover 1979). An unknown's order depends on its name and the seed
    alone, so that a change of one model leaves the others' values.
    """

    number: int
    of: int
    seed: int

    def position(self, name: str) -> float:
        """Return a number between 0 and 1 for an unknown."""
        rng = self.rng(name)
        order = rng.sample(range(self.of), self.of)
        parts = [rng.random() for _ in range(self.of)]
        return (order[self.number] + parts[self.number]) / self.of

    def rng(self, name: str) -> Random:
        """Return the generator of a name, the same for all draws of a seed."""
        return Random(f"{self.seed}/{name}".encode(errors="backslashreplace"))  # noqa: S311 (nothing here is secret)


def drawn(fitted: Fitted, draw: Draw) -> Scenario:
    """Return the scenario with a draw's values for what is not known."""
    scenario, doubt = fitted.scenario, fitted.doubt
    parts = {one.resource: one.parts(draw.position(one.resource)) for one in doubt.sharing}
    central = {one.resource: one.parts(CENTRAL) for one in doubt.sharing}
    models = tuple(
        _model(_shared(model, parts, central), doubt.models.get(model.name), draw) for model in scenario.models
    )
    return replace(scenario, models=models, traffic=tuple(_traffic(one, doubt, draw) for one in scenario.traffic))


def _model(model: Model, doubt: ModelDoubt | None, draw: Draw) -> Model:
    def at(what: str) -> float:
        return draw.position(f"{what} {model.name}")

    if doubt is None:
        return model
    deviation = doubt.service_error * NormalDist().inv_cdf(min(max(at("error"), _TAIL), 1 - _TAIL))
    # As far below as above by ratio: where few executions were seen, their mean less its error would be no time at all.
    error = 1 + deviation if deviation >= 0 else 1 / (1 - deviation)
    low, high = _GAP_RANGE
    service = _service(model.service, at("slope")).scaled(error)
    service = replace(service, dispatch_gap=service.dispatch_gap * (low + (high - low) * at("gap")))
    made = replace(
        _raced(model, doubt.overtakes, draw), service=service, service_scv=_between(doubt.service_scv, at("scv"))
    )
    if doubt.joining is None:
        return made
    made = _joining(made, doubt.joining, doubt.joins, at("joining"))
    return _slower(_crowded(made, doubt.running, at("crowding")), error)


def _raced(model: Model, bounds: Interval | None, draw: Draw) -> Model:
    """Return the model with another luck in its batcher's races: the host's threads are the same for all models."""
    if model.batcher is None or bounds is None:
        return model
    position = draw.position("overtakes")
    # Most hosts lose few: the square of an even draw has a quarter of the bounds as its median.
    share = bounds[0] + (bounds[1] - bounds[0]) * (position**2 if bounds == OVERTAKES else position)
    return replace(model, batcher=replace(model.batcher, overtakes=share))


def _crowded(model: Model, running: float, position: float) -> Model:
    """Return the model with another part of its decoding that grows with its requests; a small one is likelier."""
    engine = model.engine
    if engine is None:
        return model
    whole = engine.iteration_seconds + engine.iteration_seconds_per_request * running
    part = MOST_CROWDING * position**2
    each = replace(
        engine,
        iteration_seconds=whole * (1 - part),
        iteration_seconds_per_request=whole * part / running,
    )
    return replace(model, engine=each)


def _slower(model: Model, factor: float) -> Model:
    """Return the model with its engine's times `factor` times as long."""
    engine = model.engine
    if engine is None:
        return model
    each = replace(
        engine,
        prefill_seconds=engine.prefill_seconds * factor,
        iteration_seconds=engine.iteration_seconds * factor,
        iteration_seconds_per_request=engine.iteration_seconds_per_request * factor,
    )
    return replace(model, engine=each)


def _service(service: ServiceTime, position: float) -> ServiceTime:
    """Return the service time at a slope within its bounds; where only one size was seen, nearer to flat.

    The square of an even draw has a quarter of the bounds as its median.
    """
    low, high = service.per_item_low, service.per_item_high
    unseen = service.estimated and len(service.sizes_seen) == 1
    return service.with_slope(low + (high - low) * (position**2 if unseen else position))


def _joining(model: Model, bounds: Interval, joins: float, position: float) -> Model:
    """Return the model with another split of its iterations' time, the mean of which was measured."""
    engine = model.engine
    if engine is None:
        return model
    joining = bounds[0] + (bounds[1] - bounds[0]) * position
    whole = engine.iteration_seconds + joins * engine.prefill_seconds
    left = max(whole - joins * joining, whole / 100)
    return replace(model, engine=replace(engine, prefill_seconds=joining, iteration_seconds=left))


def _shared(
    model: Model, parts: Mapping[str, Mapping[str, DeviceDemand]], central: Mapping[str, Mapping[str, DeviceDemand]]
) -> Model:
    """Return the model with another part of what it shares, and with the time alone that makes the measured one."""
    for resource, drawn_parts in parts.items():
        if model.name in drawn_parts:
            share = drawn_parts[model.name]
            factor = share.alone / central[resource][model.name].alone
            model = replace(
                _slower(model, factor),
                demand={**model.demand, resource: share.demand},
                service=model.service.scaled(factor),
            )
    return model


def _between(bounds: Interval, position: float) -> float:
    """Return a value between bounds of a scale, at equal ratios."""
    low, high = bounds
    if low <= 0 or high <= low:
        return low
    return exp(log(low) + (log(high) - log(low)) * position)


def _traffic(traffic: OpenLoop | ClosedLoop, doubt: Doubt, draw: Draw) -> OpenLoop | ClosedLoop:
    if isinstance(traffic, ClosedLoop):
        return traffic
    if traffic.times is not None:
        if traffic.entry not in doubt.replayed:
            return traffic
        return replace(traffic, times=_redrawn(traffic.times, draw.rng(f"arrivals {traffic.entry} {draw.number}")))
    bounds = doubt.arrivals.get(traffic.entry)
    if bounds is None:
        return traffic
    index = _between(bounds, draw.position(f"arrivals {traffic.entry}"))
    return replace(traffic, scv=min(index, 1.0), burst=max(index, 1.0))


def _redrawn(times: Sequence[float], rng: Random) -> Sequence[float]:
    """Return as many arrivals, with the intervals of the recorded ones drawn anew in blocks (circular block bootstrap,
    Politis and Romano 1992).
    """
    count = len(times)
    if count < 2:
        return times
    whole = times[-1] - times[0]
    gaps = [*(after - before for before, after in pairwise(times)), whole / (count - 1)]
    made: list[float] = []
    now = times[0]
    while len(made) < count:
        start = rng.randrange(count)
        for position in range(start, start + min(_BLOCK, count - len(made))):
            made.append(now)
            now += gaps[position % count]
    return tuple(made)
