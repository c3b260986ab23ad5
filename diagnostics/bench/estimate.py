"""Numbers from repeated blocks, with their uncertainty."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# The 0.975 quantiles of Student's t for 1, 2, … degrees of freedom: tables of any textbook, such as the NIST/SEMATECH
# e-Handbook of Statistical Methods, 1.3.6.7.2.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
MOST_BLOCKS = len(_T) + 1
RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMean:
    """A mean over blocks and its 95 % confidence interval; one block alone has none: both ends are None then."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def margin(self) -> float | None:
        """Half the interval's width; None without one."""
        return None if self.high is None else self.high - self.value


def estimate(values: Sequence[float | None]) -> BlockMean | None:
    """Return the mean of one value per block with Student's interval, mean ± t·s/√n; None where a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    mean, count = statistics.fmean(known), len(known)
    if count < 2:
        return BlockMean(value=mean)
    margin = _T[min(count, MOST_BLOCKS) - 2] * statistics.stdev(known) / math.sqrt(count)
    return BlockMean(value=mean, low=mean - margin, high=mean + margin)


def resampled(values: Sequence[float], chance: random.Random) -> float:
    """Return the mean of one bootstrap sample of a point's blocks.

    The spread of a bootstrap mean is √((n−1)/n) of the right one, which is a lot for three blocks: it is widened by
    the inverse (Davison and Hinkley, Bootstrap Methods and their Application, 1997, §2.3). Points are sampled apart
    from each other, which overstates the uncertainty of differences where blocks have drifted together.
    """
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return mean
    drawn = statistics.fmean(chance.choices(values, k=count))
    return mean + (drawn - mean) * math.sqrt(count / (count - 1))
