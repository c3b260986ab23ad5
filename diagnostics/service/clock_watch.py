"""Notices that the time of day was set: durations are measured by a steady clock, but dates before and after differ."""

from __future__ import annotations

import logging

from diagnostics.service.own.metrics import OwnMetrics

log = logging.getLogger(__name__)
# A clock that is slewed gains less from one verdict to the next.
STEP = 0.5
# How long it is told of; whoever looks at the times of the last hours has to know.
TOLD_FOR = 3600.0
_PART, _WHAT = "clock", "keeping the time of day"


class ClockWatch:
    """Compares the time of day with the steady clock whenever it is asked to. For use by one thread."""

    def __init__(self, metrics: OwnMetrics) -> None:
        self._metrics = metrics
        self._offset: float | None = None
        self._stepped = float("-inf")

    def look(self, now: float, steady: float) -> None:
        """Count and tell a step; Unix seconds, steady seconds."""
        step = 0.0 if self._offset is None else now - steady - self._offset
        self._offset = now - steady
        if abs(step) > STEP:
            self._stepped = steady
            self._metrics.errors.labels(_PART).inc()
            way = f"the clock was set {'ahead' if step > 0 else 'back'} by {abs(step):.1f} s"
            self._metrics.faults.failed(_WHAT, way)
            log.warning("%s; dates before and after it do not fit together", way)
        elif steady - self._stepped > TOLD_FOR:
            self._metrics.faults.works(_WHAT)
