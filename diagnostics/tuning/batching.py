"""Waiting in front of instances that take several items at once.

Two pictures bound Triton's dynamic batcher. *Late binding*: a batch is cut when an instance is free and the
window is over, so it grows until then. *Frozen*: a batch is cut when the window is over and waits,
unchanged, behind the one that executes. With a window of 0 the scheduler binds late; with one it races
between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, pow, sqrt

from diagnostics.tuning.erlang import waiting_seconds

_ROUNDS = 60
_RESIDUALS = 8
_MOST_TERMS = 512
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A batching stage: `rate` items per second, at most `max_batch` of them per execution.

    Attributes:
        occupancy: seconds that a batch of a (mean) size holds an instance.
        window: seconds that the oldest item may wait for company.
        fire: batch size that ends the window early.
        arrival_scv, service_scv: squared coefficients of variation.

    """

    rate: float
    occupancy: Callable[[float], float]
    instances: int
    max_batch: int
    window: float
    fire: int
    arrival_scv: float
    service_scv: float

    @property
    def capacity(self) -> float:
        """Return items per second with full batches on all instances."""
        return self.instances * self.max_batch / self.occupancy(self.max_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkWait:
    """Mean seconds an item waits when batches bind late and when they freeze, and the mean batch (late)."""

    late: float
    frozen: float
    size: float
    size_scv: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cycle:
    """Items of a batch, and the seconds they wait together."""

    items: float
    waited: float


def bulk_wait(bulk: Bulk) -> BulkWait | None:
    """Return the waits of a stable stage, None when it cannot keep up.

    Late binding is renewal reasoning on one batch's cycle, exact for one instance, constant times and
    unlimited batches; several instances see the least of their residual times with the all-busy share of an
    Erlang system (Palm-Khintchine). What exceeds `max_batch` is added as the heavy-traffic wait of the bulk
    queue (Bailey 1954; Sakasegawa's exponent). The frozen bound is the G/G/c queue of window batches,
    capped by one execution, since at most one batch per instance waits formed (Triton prefetches twice the
    instances).
    """
    if bulk.rate >= bulk.capacity:
        return None
    window = _window_cycle(bulk)
    size, cycle = _fixed_point(bulk, window)
    late = cycle.waited / cycle.items + _overflow(bulk, size)
    return BulkWait(
        late=late, frozen=late + _freeze(bulk, window, late, size), size=size, size_scv=_size_scv(bulk, size)
    )


def _window_cycle(bulk: Bulk) -> _Cycle:
    """Return the batch that a window collects, by time or up to `fire` items, while an instance is free."""
    mean = bulk.rate * bulk.window
    if mean == 0 or bulk.fire <= 1:
        return _Cycle(items=1.0, waited=0.0)
    if bulk.fire > _MOST_TERMS:
        return _Cycle(items=1 + mean, waited=bulk.window * (1 + mean / 2))
    items, waited, term, tail = 1.0, 0.0, exp(-mean), 1.0 - exp(-mean)
    for k in range(bulk.fire - 1):
        # `tail` is P(more than k arrivals in a window); a stage of k + 1 items lasts tail / rate on average.
        waited += (1 + k) * tail / bulk.rate
        items += tail
        term *= mean / (k + 1)
        tail = max(tail - term, 0.0)
    return _Cycle(items=items, waited=waited)


def _fixed_point(bulk: Bulk, window: _Cycle) -> tuple[float, _Cycle]:
    """Return the mean batch that its own execution time collects, and its cycle."""
    size, cycle = window.items, window
    for _ in range(_ROUNDS):
        cycle = _cycle(bulk, window, min(size, bulk.max_batch))
        step = min(cycle.items, bulk.max_batch) - size
        size += step / 2
        if abs(step) < 1e-6 * size:
            break
    return size, cycle


def _cycle(bulk: Bulk, window: _Cycle, size: float) -> _Cycle:
    """Average the cycles that start with a free instance (window) and with all of them busy (residual)."""
    held = bulk.occupancy(size)
    dispersion = 1 + _time_scv(bulk, size)
    until_free = residuals(bulk.instances, held)
    busy = [_busy_cycle(bulk, window, residual, dispersion) for residual in until_free]
    empty = sum(_no_arrival(bulk, residual) for residual in until_free) / len(until_free)
    share = all_busy(bulk, held, empty)
    return _Cycle(
        items=(1 - share) * window.items + share * sum(c.items for c in busy) / len(busy),
        waited=(1 - share) * window.waited + share * sum(c.waited for c in busy) / len(busy),
    )


def residuals(instances: int, held: float) -> list[float]:
    """Return equally likely times until an instance is free, right after the last free one was taken."""
    if instances == 1:
        return [held]
    points = ((k + 0.5) / _RESIDUALS for k in range(_RESIDUALS))
    return [held * (1 - point ** (1 / (instances - 1))) for point in points]


def _no_arrival(bulk: Bulk, residual: float) -> float:
    return exp(-bulk.rate * max(residual - bulk.window, 0.0))


def _busy_cycle(bulk: Bulk, window: _Cycle, residual: float, dispersion: float) -> _Cycle:
    """Return the batch cut when an instance becomes free after `residual` seconds or its window ends."""
    if residual <= bulk.window:
        return window
    rate, empty, mean = bulk.rate, _no_arrival(bulk, residual), bulk.rate * bulk.window
    collected = rate * residual + empty - empty * (1 + mean)
    waited = rate * residual**2 / 2 * dispersion - empty * rate * bulk.window**2 / 2
    return _Cycle(items=collected + empty * window.items, waited=max(waited, 0.0) + empty * window.waited)


def all_busy(bulk: Bulk, held: float, empty: float) -> float:
    """Return the share of batches that take the last free instance; `empty` is the chance to drain then."""
    offered = held / (bulk.window + 1 / bulk.rate)
    weight, below = 1.0, 0.0
    for k in range(1, bulk.instances):
        below += weight
        weight *= offered / k
        if weight > 1e200:
            return 1.0
    top = weight / max(empty, 1e-12)
    return top / (below + top)


def _time_scv(bulk: Bulk, size: float) -> float:
    """Return the variability of an execution's time: its own, and its batch's."""
    slope = bulk.occupancy(size + 1) - bulk.occupancy(size)
    return bulk.service_scv + (slope * size / bulk.occupancy(size)) ** 2 * _size_scv(bulk, size)


def _size_scv(bulk: Bulk, size: float) -> float:
    """Return the variability of batch sizes: Poisson counts, fed back by the time that each item adds."""
    slope = bulk.occupancy(size + 1) - bulk.occupancy(size)
    echo = min(bulk.rate * slope / bulk.instances, 0.99)
    room = 1 - size / bulk.max_batch
    return max(size - 1, 0.0) * max(room, 0.0) / (1 - echo**2) / size**2


def _overflow(bulk: Bulk, size: float) -> float:
    """Return the mean wait for batches that are already full."""
    load = bulk.rate / bulk.capacity
    servers, most = bulk.instances, bulk.max_batch
    queue = pow(load, sqrt(2 * (servers * most + 1))) / (servers * (1 - load))
    spread = (bulk.arrival_scv / most + bulk.service_scv) / 2
    return bulk.occupancy(most) * queue * spread * min(size / most, 1.0)


def _freeze(bulk: Bulk, window: _Cycle, late: float, size: float) -> float:
    """Return the seconds that freezing adds to `late`; none without a window."""
    if bulk.window == 0 or bulk.fire <= 1:
        return 0.0
    held = bulk.occupancy(size)
    cap = held * min(bulk.rate * held / (bulk.instances * size), 1.0)
    behind = waiting_seconds(
        rate=bulk.rate / window.items,
        service=bulk.occupancy(window.items),
        servers=bulk.instances,
        arrival_scv=bulk.arrival_scv / (1 + bulk.rate * bulk.window) ** 2,
        service_scv=bulk.service_scv,
    )
    if behind is None:
        return cap
    more = window.waited / window.items + behind - late
    return _soft_minimum(more, cap) if more > 0 else 0.0


def _soft_minimum(a: float, b: float) -> float:
    """Return about the smaller of two waits; the form was chosen for its fit to simulated queues."""
    if min(a, b) < _NOTHING:
        return 0.0
    return 1.0 / (1.0 / a + 1.0 / b + 1.0 / sqrt(a * b))
