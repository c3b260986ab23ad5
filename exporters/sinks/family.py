"""What a metric is: its name, help and labels; and a row, which is one series with its value."""

from __future__ import annotations

from dataclasses import dataclass

# Beyond, a server's models are too many for a page: each would be a dozen series.
MOST_SUBJECTS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One metric: its text of help, its labels, and whether it is a counter (`…_total`) or a gauge."""

    name: str
    help: str
    labels: tuple[str, ...]
    counter: bool = False


Row = tuple[MetricFamily, tuple[str, ...], float]
