"""How often a batcher with a queue policy misses that an instance became idle, told from the queue that it leaves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import log
from statistics import fmean

from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.fitted import Interval
from diagnostics.forecast.running import outcome_of
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE
from diagnostics.tuning.simulation.batcher import prefetches
from diagnostics.tuning.simulation.scenario import OVERTAKES, Model, Scenario

# Half a second is lost at a time: of a window of 30 s, two runs' mean queues differ by a half of themselves.
_SPREAD = 1.5
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Executed requests that tell a queue's mean, and those that come meanwhile at most: clients who are refused, and ask
# again at once, are hundreds to one that is executed.
_REQUESTS, _MOST_COME, _WARMUP = 1_000, 20_000, 0.1
_LEAST_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The share of execution ends at which the batcher's thread looks too early, and its bounds."""

    model: str
    share: float
    bounds: Interval

    @property
    def assumption(self) -> str:
        """What a forecast rests on."""
        return missed(self.model, self.bounds)


def missed(model: str, bounds: Interval = OVERTAKES) -> str:
    """Say what a queue policy or priorities bring."""
    return (
        f"with its queue policy or priorities, {model}'s batcher misses {bounds[0]:.0%} to {bounds[1]:.0%} of the"
        " moments at which an instance becomes idle, and sleeps on until a request comes or half a second is over: a"
        " race of the host's threads, of which nothing is promised"
    )


def raced(evidence: Evidence, server: str, scenario: Scenario, rate: float) -> tuple[Scenario, Sequence[Race]]:
    """Return the scenario with the shares that the measured queues of models with a policy tell, and these.

    Args:
        evidence: what was read.
        server: the server's name.
        scenario: its models and traffic.
        rate: requests per second that come, as measured, of all entries.

    """
    found = []
    for model in scenario.models:
        on = Subject(server=server, model=model.name)
        queue, executed = evidence.read(QUEUE_SECONDS, on).value, evidence.read(REQUEST_RATE, on).value or rate
        seconds = min(_REQUESTS / min(executed, rate), _MOST_COME / rate)
        one = race(scenario, model, queue, seconds) if queue and is_racing(model) else None
        if one is not None:
            found.append(one)
            scenario = with_missed_wakeups(scenario, model, one.share)
    return scenario, found


def is_racing(model: Model) -> bool:
    """Say whether an instance must be seen waiting: with any queue policy or priorities."""
    return model.batcher is not None and not prefetches(model.batcher)


def race(scenario: Scenario, model: Model, queue_seconds: float, seconds: float) -> Race:
    """Return how often a model's batcher looks too early, by the mean queue that was measured, in runs of `seconds`.

    A race is lost more often on a host whose threads wake late, and each time makes what waits wait for the next
    request, or for half a second where that is turned away. So the queue grows with the share; it is simulated at
    several, and looked up in between. With other instances, or under another load, threads meet otherwise, and none may
    be lost: where a limit of 20 lost 0.4 of them, with twice the instances hardly any were. So the bounds begin at 0.
    """
    queues = [_queue(with_missed_wakeups(scenario, model, share), model.name, seconds) for share in _SHARES]
    grown = list(accumulate((max(one, _LEAST_SECONDS) for one in queues), max))
    central, most = (_looked_up(grown, queue_seconds * factor) for factor in (1.0, _SPREAD))
    return Race(model=model.name, share=central, bounds=(0.0, most))


def _queue(scenario: Scenario, model: str, seconds: float) -> float:
    waits = outcome_of(scenario, seconds=seconds, warmup_seconds=seconds * _WARMUP).models[model].waits
    return fmean(waits) if waits else 0.0


def with_missed_wakeups(scenario: Scenario, model: Model, share: float) -> Scenario:
    """Return the scenario in which a model's batcher loses that share of its races."""
    assert model.batcher is not None
    raced = replace(model, batcher=replace(model.batcher, overtakes=share))
    return replace(scenario, models=tuple(raced if one.name == model.name else one for one in scenario.models))


def _looked_up(ascending: Sequence[float], seconds: float) -> float:
    """Return the share at which the queue is that long, at equal ratios in between; the nearest beyond the ends."""
    if seconds <= ascending[0]:
        return _SHARES[0]
    if seconds >= ascending[-1]:
        return _SHARES[-1]
    after = bisect_left(ascending, seconds)
    low, high = ascending[after - 1], ascending[after]
    part = log(seconds / low) / log(high / low)
    return _SHARES[after - 1] + (_SHARES[after] - _SHARES[after - 1]) * part
