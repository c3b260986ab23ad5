"""A latency target as people write it: `p95 < 200ms`, `mean<1.5s`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from diagnostics.errors import UsageError
from diagnostics.forecast.performance import Estimate, Performance

# 1 % failed spends a 99.9 % objective's budget ten times too fast (SRE workbook, burn rates).
MOST_REFUSED = 0.01
_PATTERN = re.compile(r"^\s*(mean|p[1-9][0-9]|p99[0-9])\s*<=?\s*([0-9.]+)\s*(us|µs|ms|s)\s*$")
_SCALE = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_FORECAST = {None: "mean", 0.5: "p50", 0.95: "p95", 0.99: "p99"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTarget:
    """A statistic of end-to-end latency and the seconds it must stay under. `quantile` None means the mean."""

    quantile: float | None
    seconds: float
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the target.

        Raises:
            UsageError: the text is not `mean`, `pNN` or `p99N`, `<`, a number above 0 and a unit.

        """
        match = _PATTERN.match(text)
        if match is None:
            raise UsageError(f"cannot read objective {text!r}", hint="write it like 'p95 < 200ms' or 'mean < 1.5s'")
        word, number, unit = match.groups()
        try:
            seconds = float(number) * _SCALE[unit]
        except ValueError:
            raise UsageError(f"{number!r} is not a number in objective {text!r}") from None
        if not 0 < seconds < math.inf:
            raise UsageError(f"{number}{unit} is no latency to meet", where="--objective", hint="give more than 0")
        quantile = None if word == "mean" else float(f"0.{word[1:]}")
        return cls(quantile=quantile, seconds=seconds, text=text.strip())

    @property
    def statistic(self) -> str:
        """The word for it: mean, p50, p95, p99 or another percentile."""
        return _FORECAST.get(self.quantile) or f"p{self.quantile or 0:.3g}".replace("0.", "")

    def forecast(self, performance: Performance) -> Estimate | None:
        """Return what a forecast says of the statistic; None where the deployment cannot keep up.

        Raises:
            UsageError: forecasts do not hold this quantile.

        """
        name = _FORECAST.get(self.quantile)
        if name is None:
            raise UsageError(
                f"no forecast of {self.text!r}", where="--objective", hint="state the mean, p50, p95 or p99"
            )
        value: Estimate | None = getattr(performance, name)
        return value

    def met(self, performance: Performance) -> bool:
        """Say whether the forecast meets the target by its central value, in a deployment that keeps up.

        Requests that are refused are not answered in time: with more than a few of them no latency meets a target.
        """
        value = self.forecast(performance)
        return performance.stable and value is not None and value.value < self.seconds and not refuses(performance)


def refuses(performance: Performance) -> bool:
    """Say whether so many requests are refused that the latency of the others does not count."""
    return performance.refused_share >= MOST_REFUSED
