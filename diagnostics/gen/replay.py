"""How often an alert would have fired, from when its expression held: `for`, applied after the fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.slo.bins import stretches

# Between two points of one stretch lies one step; rounding must not tear it apart.
_SLACK = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One alert that would have fired: for whom, and from when to when, in Unix seconds."""

    labels: Mapping[str, str]
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it would have lasted."""
        return self.end - self.begin


def firings(labels: Mapping[str, str], times: Sequence[float], *, hold: float, step: float) -> Iterator[Firing]:
    """Yield the firings of one series of an alert's expression.

    Args:
        labels: the series' labels.
        times: evaluations at which the expression held, ascending, Unix seconds.
        hold: seconds for which it must hold, the rule's `for`.
        step: seconds between evaluations. An alert ends with the first at which the expression no longer holds.

    """
    for begin, last in stretches(times, _SLACK * step):
        if last - begin >= hold:
            yield Firing(labels=labels, begin=begin + hold, end=last + step)
