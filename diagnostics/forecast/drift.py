"""By how much what a model takes differs between the parts of a window, and so may from this window to another."""

from __future__ import annotations

from statistics import fmean, pstdev

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import BATCH_SIZE
from diagnostics.tuning.service import ServiceTime

_PARTS, _FEWEST_PARTS = 8, 4
# By this even undisturbed hosts differ from one window to the next.
_LEAST = 0.01


def drift(evidence: Evidence, on: Subject, signal: Signal, service: ServiceTime | None = None) -> float:
    """Return the standard deviation of a mean time between the eighths of the window, as a share of it.

    What changes from one part of a window to the next (clocks, neighbours, temperature) may as well be other in another
    window. Of executions with a known `service` time, each part's mean is set against that of its own mean batch:
    larger batches take longer without anything having changed. At least a hundredth; that, too, where the window has
    too few reads to tell.
    """
    at = instants(evidence.moments(on.server), _PARTS)
    sizes = series(evidence, BATCH_SIZE, on, at) if service else ()
    due = [service.time(one.reading.value or 1.0) for one in sizes] if service else [1.0] * (len(at) - 1)
    values = [one.reading.value for one in series(evidence, signal, on, at)]
    means = [value / each for value, each in zip(values, due, strict=True) if value is not None and each > 0]
    if len(means) < _FEWEST_PARTS or fmean(means) <= 0:
        return _LEAST
    return max(pstdev(means) / fmean(means), _LEAST)
