"""Whether a measurement had its processors to itself: what the kernel counted on them meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_STAT, _CGROUP = Path("/proc/stat"), Path("/sys/fs/cgroup/cpu.stat")
# Positions in a line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal.
_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8

# A stolen percent of 10 ms of work is 0.1 ms, which is what a stage needs from one execution to the next.
MOST_STEAL = 0.01
# Where processors are 70 % busy, a thread that wakes finds one busy every other time on two of them.
MOST_BUSY = 0.7
# A tenth of a stage of 20 ms: bursts and gaps are then those that the predictor gets.
MOST_LATE_SECONDS = 0.002
# One client sends a burst's requests one after the other, half a millisecond each. All but the first queue behind an
# execution anyway: they are at once if they come within a quarter of it, of 16 ms.
MOST_LATE_IN_BURST_SECONDS = 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the processors did during a measurement.

    Attributes:
        busy_share: share of their time in which they worked for anybody.
        steal_share: share of it that the hypervisor gave to others.
        throttled_seconds: time for which a quota of the container held its processes back.
        late_seconds: 99th percentile of how much later than due requests were sent.

    """

    busy_share: float
    steal_share: float
    throttled_seconds: float
    late_seconds: float

    def disturbance(self, most_late: float = MOST_LATE_SECONDS) -> str:
        """Return what disturbed the measurement, in words; empty when nothing did."""
        reasons = (
            (self.steal_share > MOST_STEAL, f"{self.steal_share:.1%} of the processors' time was stolen"),
            (self.busy_share > MOST_BUSY, f"the processors were {self.busy_share:.0%} busy"),
            (self.throttled_seconds > 0, f"held back by a quota for {self.throttled_seconds:.2f} s"),
            (self.late_seconds > most_late, f"requests were sent {self.late_seconds * 1e3:.1f} ms late"),
        )
        return "; ".join(text for true, text in reasons if true)


class Meter:
    """Counts from its making on, on the processors that this process may use."""

    def __init__(self) -> None:
        self._cpus = sorted(os.sched_getaffinity(0))
        self._ticks, self._throttled = _ticks(self._cpus), _throttled()

    def stop(self) -> None:
        """Count no longer."""
        now = _ticks(self._cpus)
        self._ticks = [after - before for after, before in zip(now, self._ticks, strict=True)]
        self._throttled = _throttled() - self._throttled

    def read(self, late: Sequence[float]) -> Machine:
        """Return what was counted until it stopped; `late` is by how many seconds each request was late."""
        passed, total = self._ticks, sum(self._ticks) or 1.0
        ascending = sorted(late) or [0.0]
        return Machine(
            busy_share=1 - (passed[_IDLE] + passed[_IOWAIT]) / total,
            steal_share=passed[_STEAL] / total,
            throttled_seconds=self._throttled,
            late_seconds=ascending[int(0.99 * (len(ascending) - 1))],
        )


def _ticks(cpus: Sequence[int]) -> list[float]:
    names = {f"cpu{number}" for number in cpus}
    rows = [line.split() for line in _STAT.read_text("ascii").splitlines()]
    counted = [[float(field) for field in row[1 : 1 + _FIELDS]] for row in rows if row and row[0] in names]
    return [sum(column) for column in zip(*counted, strict=True)]


def _throttled() -> float:
    """Return seconds; 0 where the container has no quota, or the kernel tells of none."""
    try:
        rows = dict(line.split() for line in _CGROUP.read_text("ascii").splitlines())
    except OSError:
        return 0.0
    return int(rows.get("throttled_usec", 0)) / 1e6
