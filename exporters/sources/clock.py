"""The time of each body: one wall time, read at the start, plus what a steady clock counted since.

A wall clock that is set meanwhile (NTP, a virtual machine that woke, an operator) would file bodies before or long
after their neighbours, as if the server had stood still. Summer time does not matter: all times are Unix seconds.
The steady clock stands still while the machine sleeps, so that a sleep shows as a step of the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Clocks that are disciplined are slewed by less than half a millisecond per second; a step is more at once.
STEP_SECONDS = 0.5


class SteadyWallClock:
    """Wall time that goes on evenly whatever the machine's clock is set to."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()

    def now(self) -> float:
        """Return Unix seconds by the clock as it was at the start."""
        return self._steady() + self._offset

    def stepped(self) -> float:
        """Return by how many seconds the machine's clock was set forward since the start; 0 for less than a step."""
        by = self._wall() - self.now()
        return by if abs(by) >= STEP_SECONDS else 0.0


CLOCK = SteadyWallClock()
