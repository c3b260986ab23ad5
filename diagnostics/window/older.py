"""Whether a version that one source shows late is older than that, as the other source tells."""

from __future__ import annotations

from diagnostics.window.counters import Counter, CounterTable
from diagnostics.window.openings import SAME_ROUND_SECONDS


def listed_before(table: CounterTable, other: CounterTable | None) -> bool:
    """Return whether another source counted requests of a version before this one listed it, and began no epoch then.

    A body that was cut, or came from elsewhere, left it out: it was not loaded then, and counted no one knows what.

    Args:
        table: the version by one source.
        other: the same by another; None where that never listed it.

    """
    appeared, first = table.appeared, other.first if other is not None else None
    if appeared is None or other is None or first is None or not first.values.get(Counter.SUCCESS, 0.0):
        return False
    began = any(step.start <= appeared.end and appeared.start <= step.end for step in other.openings)
    return first.at <= appeared.start + SAME_ROUND_SECONDS and not began
