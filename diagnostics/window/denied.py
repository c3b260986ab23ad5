"""Which epochs that one source shows to begin in the window did not, as the other source tells.

A body that was cut, or came from elsewhere, leaves a version out, or holds other counters: nothing was loaded then, and
what was counted since is not known.
"""

from __future__ import annotations

from diagnostics.window.counters import Counter, CounterStep, CounterTable, Opened
from diagnostics.window.openings import FEW_REQUESTS, SAME_ROUND_SECONDS

# Both sources count the same requests; their reads of one round lie some milliseconds apart.
_AS_MANY = 1.1


def contradicted_resets(table: CounterTable, other: CounterTable | None) -> tuple[CounterStep, ...]:
    """Return the steps that begin an epoch of a version in one source, and do not by the other; none without another.

    Either the other one listed a version before it is said to have appeared, and had counted some of its requests. Or
    it counted fewer since the read before than are said to have been counted from zero. Where it begins an epoch just
    then itself, or was not read, it denies nothing.
    """
    if other is None or other.first is None:
        return ()
    began = other.openings
    return tuple(
        step
        for step in table.openings
        if not any(one.start <= step.end and step.start <= one.end for one in began)
        and (_listed_before(step, other) or _counted_fewer(step, other))
    )


def _listed_before(step: CounterStep, other: CounterTable) -> bool:
    first = other.first
    return (
        step.opened is Opened.APPEARED
        and first is not None
        and first.at <= step.start + SAME_ROUND_SECONDS
        and first.values.get(Counter.SUCCESS, 0.0) > 0
    )


def _counted_fewer(step: CounterStep, other: CounterTable) -> bool:
    meanwhile = [one for one in other.steps if one.start < step.end and step.start < one.end]
    watched = sum(min(one.end, step.end) - max(one.start, step.start) for one in meanwhile)
    if watched < step.end - step.start - 2 * SAME_ROUND_SECONDS:
        return False
    counted = sum(one.values.get(Counter.SUCCESS, 0.0) for one in meanwhile)
    return step.values.get(Counter.SUCCESS, 0.0) > _AS_MANY * counted + FEW_REQUESTS
