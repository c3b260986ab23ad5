"""Random numbers: how long an execution takes, and when requests arrive.

Each model and each stream of traffic draws from a generator of its own, seeded by its name, so that a change of one
leaves the others' numbers alone (common random numbers: differences between two scenarios are the change's).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import sqrt
from random import Random

from diagnostics.tuning.simulation.scenario import Model, OpenLoop

# Up to this scv a uniform factor stays between a half and one and a half.
_UNIFORM_SCV = 1 / 12


def stream(seed: int, name: str) -> Random:
    """Return the generator of a name."""
    # A name off the wire may be no text: half a surrogate pair has no bytes of its own.
    return Random(f"{seed}/{name}".encode(errors="backslashreplace"))  # noqa: S311 (nothing here is secret)


def durations(model: Model, rng: Random) -> Callable[[int], float]:
    """Return what gives the seconds of an execution by its items.

    The mean is the service time's, times a factor with mean 1 and the model's scv: uniform where that is small, else
    gamma.
    """
    times = cache(model.service.time)
    factor = factors(model.service_scv, rng)
    if factor is None:
        return times
    return lambda size: times(size) * factor()


def seconds_of(model: Model, items: Sequence[int], rng: Random) -> Sequence[float]:
    """Return the seconds of an execution of each of these items, as `durations` gives them one by one."""
    means = {size: model.service.time(size) for size in set(items)}
    factor = factors(model.service_scv, rng)
    if factor is None:
        return [means[size] for size in items]
    return [means[size] * factor() for size in items]


def factors(scv: float, rng: Random) -> Callable[[], float] | None:
    """Return what draws positive numbers of mean 1 and this scv; None for an scv of 0."""
    if scv <= 0:
        return None
    if scv <= _UNIFORM_SCV:
        low, width, uniform = 1 - sqrt(3 * scv), 2 * sqrt(3 * scv), rng.random
        return lambda: low + width * uniform()
    gamma, shape = rng.gammavariate, 1 / scv
    return lambda: gamma(shape, scv)


def arrivals(traffic: OpenLoop, rng: Random) -> Iterator[float]:
    """Yield the instants of arrivals in seconds, ascending; none for a rate of 0.

    Poisson for an scv of 1; below it, gamma intervals; above it, hyperexponential intervals of two phases with
    balanced means (Whitt 1982, "Approximating a point process by a renewal process, I"): a renewal process whose
    counts disperse by the scv over long times, as bunched requests' do, without saying how large a bunch is.
    """
    if traffic.times is not None:
        yield from traffic.times
        return
    if traffic.rate <= 0:
        return
    now, interval = 0.0, _intervals(traffic.rate / max(traffic.burst, 1.0), traffic.scv, rng)
    if traffic.burst > 1:
        yield from _bursts(traffic.burst, interval, rng)
    while True:
        now += interval()
        yield now


def _bursts(size: float, interval: Callable[[], float], rng: Random) -> Iterator[float]:
    """Yield arrivals of which so many come at one instant; of a size between two whole ones, either."""
    now, whole = 0.0, int(size)
    while True:
        now += interval()
        for _ in range(whole + (rng.random() < size - whole)):
            yield now


def _intervals(rate: float, scv: float, rng: Random) -> Callable[[], float]:
    if scv == 1:
        return lambda: rng.expovariate(rate)
    if scv > 1:
        return _hyperexponential(rate, scv, rng)
    factor = factors(scv, rng)
    return (lambda: 1 / rate) if factor is None else (lambda: factor() / rate)


def _hyperexponential(rate: float, scv: float, rng: Random) -> Callable[[], float]:
    share = (1 + sqrt((scv - 1) / (scv + 1))) / 2
    often, seldom = 2 * share * rate, 2 * (1 - share) * rate
    return lambda: rng.expovariate(often if rng.random() < share else seldom)
