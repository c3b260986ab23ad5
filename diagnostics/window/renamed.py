"""Rows that one body calls otherwise than the bodies before it: the same counters, under another name.

A relabelling rule that changed, a proxy that rewrites, one damaged body: a model or version seems to vanish and another
to appear in the same read. What was just loaded counts from zero; counters that go on where the vanished row's ended
are that row's.
"""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.window.counters import Counter, CounterTable
from diagnostics.window.normalize import ModelKey
from diagnostics.window.points import EPOCH_COUNTERS, CounterPoint, fell

# Beyond so many of its own largest steps the vanished row's counters are no neighbours of the new one's.
_NEIGHBOURS = 3.0


def under_their_own_names(
    rows: Mapping[ModelKey, CounterPoint], tables: Mapping[ModelKey, CounterTable]
) -> Mapping[ModelKey, CounterPoint]:
    """Return the rows of one read by the names that they had before.

    Only a row of the newest read that listed any can have got another name: what was missing while others were listed
    vanished by itself.

    Args:
        rows: what this read lists.
        tables: what earlier reads listed.

    """
    strange = [key for key in rows if key not in tables]
    if not tables or not strange:
        return rows
    newest = max(map(_last_read, tables.values()))
    gone = {key: table for key, table in tables.items() if key not in rows and _last_read(table) >= newest}
    named = dict(rows)
    for key in strange:
        own = min(
            (old for old, table in gone.items() if _goes_on(table, rows[key])),
            key=lambda old: (old[0] != key[0], _distance(gone[old], rows[key])),
            default=None,
        )
        if own is not None:
            del gone[own]
            named[own] = named.pop(key)
    return named


def _last_read(table: CounterTable) -> float:
    return table.last.mono if table.last is not None else float("-inf")


def _goes_on(table: CounterTable, point: CounterPoint) -> bool:
    """Return whether counters that were well under way go on in another row, about as fast as before."""
    last = table.last
    if last is None or fell(last, point) or not _is_under_way(table, last):
        return False
    steps = [step.values.get(Counter.SUCCESS, 0.0) / step.seconds for step in table.steps]
    return _distance(table, point) <= _NEIGHBOURS * max(steps) * (point.mono - last.mono)


def _is_under_way(table: CounterTable, last: CounterPoint) -> bool:
    """Return whether it counted more than what a version that was just loaded could have."""
    most = max((step.values.get(Counter.SUCCESS, 0.0) for step in table.steps), default=0.0)
    return all(last.values[counter] > _NEIGHBOURS * most > 0 for counter in EPOCH_COUNTERS if counter in last.values)


def _distance(table: CounterTable, point: CounterPoint) -> float:
    last = table.last
    return point.values.get(Counter.SUCCESS, 0.0) - (last.values.get(Counter.SUCCESS, 0.0) if last else 0.0)
