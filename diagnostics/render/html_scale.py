"""Numbers that fit a picture."""

from __future__ import annotations

import math

_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def axis_end(largest: float) -> float:
    """Return the next round number at or above `largest`, 1 for nothing to show."""
    if not math.isfinite(largest) or largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in _STEPS if step * power >= largest * (1 - 1e-9) or step == _STEPS[-1])
