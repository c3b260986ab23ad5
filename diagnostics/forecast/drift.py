"""By how much what a model takes differs between the parts of a window, and so may from this window to another."""

from __future__ import annotations

from statistics import fmean, pstdev

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Subject

_PARTS, _FEWEST_PARTS = 8, 4
# By this even undisturbed hosts differ from one window to the next.
_LEAST = 0.01


def drift(evidence: Evidence, on: Subject, signal: Signal) -> float:
    """Return the standard deviation of a mean time between the eighths of the window, as a share of it.

    What changes from one part of a window to the next (clocks, neighbours, temperature) may as well be other in another
    window. At least a hundredth; that, too, where the window has too few reads to tell.
    """
    stretches = series(evidence, signal, on, instants(evidence.moments(on.server), _PARTS))
    means = [one.reading.value for one in stretches if one.reading.value is not None]
    if len(means) < _FEWEST_PARTS or fmean(means) <= 0:
        return _LEAST
    return max(pstdev(means) / fmean(means), _LEAST)
