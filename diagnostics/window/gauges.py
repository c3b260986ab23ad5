"""What the series of metrics pages stood at, read for read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from diagnostics.window.normalize import positions_of
from diagnostics.wire.exposition import SeriesLayout, Snapshot

Gauge = Sequence[tuple[float, float]]


class Gauges:
    """The pages of one server, in time order.

    Neighbouring pages of the same series share their layout: labels are compared once for all of them.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[SeriesLayout, list[tuple[float, Sequence[float]]]]] = []

    def take(self, at: float, page: Snapshot) -> None:
        """Add a page that was read at Unix second `at`."""
        if not self._runs or self._runs[-1][0] is not page.layout:
            self._runs.append((page.layout, []))
        self._runs[-1][1].append((at, page.values))

    def read(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Return (Unix seconds, value) of the series of `name` that carry `labels`, summed per page, in time order.

        A page without such a series, or with none that is a number, gives no point.
        """
        points: list[tuple[float, float]] = []
        for layout, pages in self._runs:
            positions = positions_of(layout, name, labels)
            if len(positions) == 1:  # nearly always
                points += [(at, value) for at, values in pages if isfinite(value := values[positions[0]])]
            elif positions:
                every = ((at, [v for position in positions if isfinite(v := values[position])]) for at, values in pages)
                points += [(at, sum(matching)) for at, matching in every if matching]
        return points
