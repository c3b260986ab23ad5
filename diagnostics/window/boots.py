"""Samples of a machine whose processor time falls: it was booted, or its clock was set and they are out of order.

What was used between the first and the last of such samples is the difference of two numbers that have nothing to do
with each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.wire.host import HostSample


def longest_boot(samples: Sequence[HostSample]) -> list[HostSample]:
    """Return the longest run of samples, of one machine in time order, in which its processor time does not fall.

    Of runs of one length the newest. A sample that does not tell its processor time belongs to the run around it.
    """
    runs: list[list[HostSample]] = []
    most = 0.0
    for sample in samples:
        total = sample.cpu_total_seconds
        if not runs or (total is not None and total < most):
            runs.append([])
        runs[-1].append(sample)
        most = most if total is None else total
    return max(reversed(runs), key=len, default=[])
