"""How much the series of a family on a server's metrics page grew: each counted for itself, resets and all.

Counters that are kept per model are read through the window's own tables; this is for families those leave out:
buckets of histograms and single reasons of failures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import isfinite

from diagnostics.window.normalize import positions_of
from diagnostics.window.points import LARGEST_RATE_PER_SECOND
from diagnostics.window.window import ServerWindow

Key = tuple[tuple[str, str], ...]


def growth(
    server: ServerWindow, family: str, labels: Mapping[str, str], after: float, until: float
) -> dict[Key, float] | None:
    """Return the increase of each series that carries `labels`, by its labels; None when no page has such a series.

    Increases are those that pages read in (after, until], Unix seconds, show over the page before. A value below the
    one before is a counter that began again at zero; one that no server reaches is a corrupted page's, and left out.
    """
    last: dict[Key, float] = {}
    grown: dict[Key, float] = defaultdict(float)
    read_at: float | None = None
    for at, mono, snapshot in server.snapshots:
        if at > until:
            break
        for position in positions_of(snapshot.layout, family, labels):
            value = snapshot.values[position]
            if not isfinite(value):
                continue
            key = tuple(sorted(snapshot.layout.series[position].labels.items()))
            if at > after and read_at is not None:
                grown[key] += _increase(last.get(key, 0.0), value, mono - read_at)
            last[key] = value
        read_at = mono
    return dict(grown) if last else None


def _increase(before: float, now: float, seconds: float) -> float:
    increase = now - before if now >= before else now
    return increase if increase <= LARGEST_RATE_PER_SECOND * max(seconds, 0.0) else 0.0
