"""A signal over time: one reading per stretch of the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.signal import Reading, Signal, Subject

# More points than this are finer than a chart of a phone's width can show.
MOST_SAMPLES = 48
# Sources of one server are read one after another: a read belongs to the instant it is within this part of a step of.
_SLACK = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A signal's reading between two instants; Unix seconds."""

    start: float
    end: float
    reading: Reading


def instants(moments: Sequence[float], most: int = MOST_SAMPLES, around: float | None = None) -> tuple[float, ...]:
    """Return at most `most` + 1 of the moments, evenly many reads apart, the first and the last among them.

    Args:
        moments: when counters were read, Unix seconds in time order.
        most: how many stretches there may be.
        around: keep to the reads near this instant when there are many; the whole window when None.

    """
    kept = list(moments)
    if around is not None and len(kept) > 4 * most:
        nearest = min(range(len(kept)), key=lambda i: abs(kept[i] - around))
        first = min(max(nearest - 2 * most, 0), len(kept) - 4 * most)
        kept = kept[first : first + 4 * most]
    steps = len(kept) - 1
    if steps < 1:
        return ()
    stretches = min(steps, most)
    return tuple(kept[i * steps // stretches] for i in range(stretches + 1))


def series(evidence: Evidence, signal: Signal, on: Subject, at: Sequence[float]) -> tuple[Sample, ...]:
    """Return the signal's reading in every stretch between neighbouring instants; an absent one says why."""
    slack = _SLACK * min((b - a for a, b in pairwise(evidence.moments(on.server))), default=0.0)
    return tuple(
        Sample(start=start, end=end, reading=evidence.read(signal, on, (start - slack, end + slack)))
        for start, end in pairwise(at)
    )
