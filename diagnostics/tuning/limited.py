"""Queues that turn away what is too much: how much that is, and how long those that stay wait."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log

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
    """Return what a queue does in which `places` customers may wait, and others are turned away as they come.

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
