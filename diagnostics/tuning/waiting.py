"""Waiting in front of instances: without batching, with it, and in queues that turn requests away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, log, pow, sqrt


def erlang_b(servers: int, offered: float) -> float:
    """Return the share of arrivals that find all servers of M/G/c/c busy, and are lost.

    Source: Erlang 1917, by its stable recursion (Kleinrock, Queueing Systems I, 3.5).
    """
    loss = 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    return loss


def erlang_c(servers: int, offered: float) -> float:
    """Return the share of arrivals that find all servers of M/M/c busy; 1 from full load (in erlangs) on.

    Source: as of `erlang_b`, from which it follows.
    """
    if offered >= servers:
        return 1.0
    loss = erlang_b(servers, offered)
    share = offered / servers
    return loss / (1 - share * (1 - loss))


def waiting_seconds(
    *, rate: float, service: float, servers: int, arrival_scv: float, service_scv: float
) -> float | None:
    """Return the mean seconds a customer waits in G/G/c, None when the servers cannot keep up.

    `rate` is per second, `service` in seconds; the squared coefficients of variation are ratios. Exact for
    M/G/1. Source: the Allen-Cunneen approximation (Allen, Probability, Statistics, and Queueing Theory, 2nd
    ed.).
    """
    offered = rate * service
    if offered >= servers:
        return None
    markov = erlang_c(servers, offered) * service / (servers - offered)
    return markov * (arrival_scv + service_scv) / 2


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


# Exponents beyond which a tail is nothing, or a queue is always full, in any number that is shown.
_MOST_EXPONENT = 200.0
# Nearer to full load, or to a flat tail, quotients of differences are noise: their limits hold.
_FLAT = 1e-6
# Where neither arrivals nor executions vary a queue has no tail; this is as good as none.
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLoad:
    """What is offered to a queue and its servers.

    Attributes:
        share: what is offered over what the servers can do; may be above 1.
        all_busy: share of arrivals that would find all servers busy if none could wait (`erlang.erlang_b`).
        drain: seconds per customer at which busy servers work the queue off.
        arrival_scv: squared coefficient of variation of the time between arrivals.
        service_scv: the same of an execution's time, per customer in it.

    """

    share: float
    all_busy: float
    drain: float
    arrival_scv: float
    service_scv: float

    @property
    def spread(self) -> float:
        return max(self.arrival_scv + self.service_scv, _LEAST_SPREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a limited queue does: the share of its customers that it loses, and the mean seconds the others wait."""

    lost: float
    wait: float


def few_places(load: OfferedLoad, places: float) -> Kept:
    """Return what a queue does in which `places` customers may wait, and others are rejected as they come.

    G/G/c/K; exact in what M/M/c/K loses. The tail is geometric with the ratio of heavy traffic, `ρ^(2 / (scv of
    arrivals + scv of service))`. `_kept` says the rest.
    """
    power = 2 * places / load.spread
    # The execution that runs counts with its residual: all of it where it is exponential.
    return _kept(load, power * log(load.share) if load.share > 0 else -_MOST_EXPONENT, power, places + load.service_scv)


def short_patience(load: OfferedLoad, seconds: float) -> Kept:
    """Return what a queue does whose customers leave after they waited for `seconds`; exact of M/M/c."""
    places = seconds / load.drain
    power = 2 * places / load.spread
    return _kept(load, power * (load.share - 1), power, places)


def _kept(load: OfferedLoad, exponent: float, power: float, places: float) -> Kept:
    """Return what becomes of customers where the infinite queue's tail at the limit is `e^exponent` of those who wait.

    With `Π` for the share that finds the limit reached in the infinite queue `(1 - ρ) Π / (1 - ρ Π)` are lost (De Kok &
    Tijms, "A queueing system with impatient customers", Journal of Applied Probability 22, 1985; Boots & Tijms, "A
    multiserver queueing system with impatient customers", Management Science 45, 1999). Written with Erlang's loss
    formula instead of his waiting formula, it holds at and above full load, too. Those who stay wait for a time of the
    same tail, cut off at the limit.
    """
    busy, tail = load.all_busy, exp(_clipped(exponent)) if exponent > -_MOST_EXPONENT else 0.0
    short = 1 - load.share
    within = power if abs(short) < _FLAT else (1 - tail) / short
    waiting = busy * within
    return Kept(
        lost=min(busy * tail / (1 + load.share * waiting), 1.0),
        wait=waiting / (1 - busy + waiting) * _cut_off(2 * short / load.drain / load.spread, places * load.drain),
    )


def _cut_off(rate: float, most: float) -> float:
    """Return the mean of an exponential time of that rate (below 0, one that grows) which is at most `most`."""
    exponent = _clipped(rate * most)
    if abs(exponent) < _FLAT:
        return most / 2
    return 1 / rate - most / expm1(exponent)


def _clipped(exponent: float) -> float:
    return min(max(exponent, -_MOST_EXPONENT), _MOST_EXPONENT)


_CYCLE_ROUNDS = 30
_CLOSE = 1e-4
# Terms of a Poisson distribution that are summed; with more of them, or a larger mean, only its mean counts.


@dataclass(frozen=True, slots=True)
class _BatchCycle:
    """Items that come while a batch is waited for, by what becomes of them, and the seconds that those kept wait."""

    kept: float
    lost: float
    waited: float


# Of the seconds until a batch is cut.
Collects = Callable[[float], _BatchCycle]


def lost_for_places(bulk: Bulk, places: int) -> Kept:
    """Return what is lost where `places` items may wait: Poisson arrivals beyond them until an instance is free.

    Those kept come first, and so wait for most of that time.
    """

    def collects(seconds: float) -> _BatchCycle:
        come = bulk.rate * seconds
        lost = _beyond(come, places)
        kept = come - lost
        return _BatchCycle(kept, lost, kept * (seconds - min(seconds, places / bulk.rate) / 2))

    # A batch of the size that ends the window early may be more than may wait: then all of the window is waited for.
    return _kept_batches(bulk, collects, bulk.window if bulk.fire > places else 0.0)


def lost_for_patience(bulk: Bulk, patience: float) -> Kept:
    """Return what is lost where items leave after `patience` seconds: all that come earlier before a batch."""

    def collects(seconds: float) -> _BatchCycle:
        stay = min(patience, seconds)
        return _BatchCycle(bulk.rate * stay, bulk.rate * (seconds - stay), bulk.rate * stay**2 / 2)

    return _kept_batches(bulk, collects, 0.0)


def _kept_batches(bulk: Bulk, collects: Collects, window: float) -> Kept:
    """Return what is lost of all items, by the mean batch that its own execution collects (`batching.bulk_wait`).

    Batches that find an instance free, and those that collected nothing, begin with the next item.
    """
    if bulk.rate <= 0:
        return Kept(lost=0.0, wait=0.0)
    size, lost, waited = 1.0, 0.0, 0.0
    for _ in range(_CYCLE_ROUNDS):
        until_free = [max(each, window) for each in residuals(bulk.instances, bulk.occupancy(size))]
        cycles = [collects(seconds) for seconds in until_free]
        empty = sum(exp(-one.kept) for one in cycles) / len(cycles)
        share = all_busy(bulk, bulk.occupancy(size), empty)
        alone = 1 - share + share * empty
        lost = share * sum(one.lost for one in cycles) / len(cycles)
        waited = share * sum(one.waited for one in cycles) / len(cycles)
        now = min(max(share * sum(one.kept for one in cycles) / len(cycles) + alone, 1.0), float(bulk.max_batch))
        if abs(now - size) < _CLOSE * size:
            break
        size += (now - size) / 2
    return Kept(lost=lost / (lost + size), wait=waited / size)


def _beyond(mean: float, places: int) -> float:
    """Return by how much a Poisson number exceeds `places` on average."""
    if places > _MOST_TERMS or mean > _MOST_TERMS:
        return max(mean - places, 0.0)
    term = exp(-mean)
    at_least = 1.0 - term
    for k in range(1, places):
        term *= mean / k
        at_least -= term
    more = at_least - term * mean / places
    return max(mean * at_least - places * more, 0.0)
