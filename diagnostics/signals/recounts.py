"""Requests that wait while a model has fewer instances than at other times of a window.

What scales a model up and down leaves counters that belong to no one number of instances. What they were at other times
shows more than a forecast: as many requests hardly waited then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened, ServerChange
from diagnostics.window.onset import CHANGE_FACTOR
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

_COUNT = "instance_group.count"
# Fewer once may be meant, and what it brings is judged since then; fewer twice comes and goes.
_AGAIN = 2
# What comes and goes by a load stays twice as long by chance, not more.
_STAYED = 2.0
# Requests that wait at other times, too, wait for something else.
_NEARLY_ALL = 0.9


class Recount(NamedTuple):
    """A change of how many instances a model has: between which Unix seconds, from how many, and to how many."""

    since: float
    at: float
    before: int
    after: int


def recounts(changes: Iterable[ServerChange], model: str) -> list[Recount]:
    """Return the changes of a model's number of instances, in time order; none where it has several groups."""
    return [
        Recount(change.since, change.at, int(setting.before), int(setting.after))
        for change in changes
        if change.kind is Happened.CONFIGURED and change.model == model
        for setting in change.settings
        if setting.path == _COUNT and setting.before.isdecimal() and setting.after.isdecimal()
    ]


def most_of(found: Sequence[Recount]) -> int:
    """Return the largest number of instances among changes."""
    return max(max(one.before, one.after) for one in found)


def _fewer(found: Sequence[Recount], end: float) -> list[tuple[float, float]]:
    """Return between which Unix seconds there were, or may have been, fewer instances than the most."""
    most, spans = most_of(found), list[tuple[float, float]]()
    begun = found[0].since if found[0].before < most else None
    for one in found:
        if one.after < most and begun is None:
            begun = one.since
        elif one.after == most and begun is not None:
            spans.append((begun, one.at))
            begun = None
    return [*spans, (begun, end)] if begun is not None else spans


def _is_over(found: Sequence[Recount], end: float) -> bool:
    """Return whether all instances are there for longer than they ever were between two changes: then they stay."""
    most = most_of(found)
    stays = [later.since - sooner.at for sooner, later in pairwise(found) if sooner.after == most]
    return found[-1].after == most and end - found[-1].at > _STAYED * max(stays, default=0.0)


def _from_steps(source: str) -> Read:
    def read(view: ModelView) -> Reading:
        found = [one for one in recounts(view.changes(), view.model or "") if view.start <= one.at <= view.end]
        if sum(one.after < one.before for one in found) < _AGAIN or _is_over(found, view.end):
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, source)
        steps = [step for step in view.steps(source) if {Counter.SUCCESS, Counter.QUEUE_SECONDS} <= set(step.values)]
        spans = _fewer(found, view.end)
        few = [step for step in steps if any(step.start < end and since < step.end for since, end in spans)]
        most = [step for step in steps if step not in few]
        served_by_few, served_by_most = (increase(part, Counter.SUCCESS) for part in (few, most))
        if min(served_by_few, served_by_most) < ENOUGH_EVENTS:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, source)
        each = increase(most, Counter.QUEUE_SECONDS) / served_by_most
        longer = max(increase(few, Counter.QUEUE_SECONDS) - each * served_by_few, 0.0)
        little = longer < _NEARLY_ALL * increase(steps, Counter.QUEUE_SECONDS)
        if little or _rate(few) > CHANGE_FACTOR * _rate(most):
            return Reading.of(0.0, Unit.SECONDS, source)
        return Reading.of(longer / increase(steps, Counter.SUCCESS), Unit.SECONDS, source, events=served_by_few)

    return read


def _rate(steps: Sequence[CounterStep]) -> float:
    return increase(steps, Counter.SUCCESS) / sum(step.seconds for step in steps)


FEWER_INSTANCES_QUEUE = Signal(
    name="queue_with_fewer_instances",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Queue time, per request of the window, while the model has fewer instances than at other times, beyond what "
    "as many requests wait then; 0 where they wait then, too. Unknown where instances do not come and go.",
    readers=(_from_steps(STATISTICS), _from_steps(METRICS)),
)
