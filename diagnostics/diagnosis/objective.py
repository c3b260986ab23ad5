"""A latency objective as people write it: `p95 < 200ms`, `mean<1.5s`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.target import LatencyTarget
from diagnostics.signals.signal import Reading, Subject
from diagnostics.signals.tails import latency_quantile
from diagnostics.units import Unit

MEDIAN = 0.5
P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective(LatencyTarget):
    """A target that evidence is held against."""

    def missed(self, evidence: Evidence, anatomy: Sequence[Anatomy]) -> tuple[Symptom, ...]:
        """Return a symptom per entry that misses the objective; one that cannot be measured says so."""
        found = []
        for item in anatomy:
            name = item.ensemble or item.stages[0].model
            measured = latency_of(evidence, item, self.quantile)
            if measured.value is None:
                mean = Unit.SECONDS.show(item.mean_seconds)
                found.append(
                    Symptom(
                        entry=name,
                        figure=f"{name} mean {mean} ({self.statistic} is not measured), {self._stated}",
                        text=f"whether {name} meets {self.text} is unknown: the server exports no such quantile, and "
                        "too few requests were traced, or recorded by clients",
                        next_measurement="start Triton with --metrics-config summary_latencies=true, or state a mean",
                    )
                )
            elif measured.value > self.seconds:
                shown = f"{Unit.SECONDS.show(measured.value)}{covered(measured)}"
                found.append(
                    Symptom(
                        entry=name,
                        figure=f"{name} {self.statistic} {shown}, objective {Unit.SECONDS.show(self.seconds)}",
                        text=f"{name} misses {self.text}: it is {shown}",
                        next_measurement="see where its time goes, below",
                        misses_objective=True,
                    )
                )
        return tuple(found)

    @property
    def _stated(self) -> str:
        return f"objective {self.statistic} {Unit.SECONDS.show(self.seconds)}"


def latency_of(evidence: Evidence, item: Anatomy, quantile: float | None = None) -> Reading:
    """Return the seconds that requests of an entry take: their mean, or a quantile; absent where none was measured.

    `span` is set where the value is Triton's summary, and the window is not of its 60 s.
    """
    if quantile is None:
        return Reading.of(item.mean_seconds, Unit.SECONDS, item.source)
    traced = {MEDIAN: item.spread.p50, P95: item.spread.p95} if item.spread else {}
    if quantile in traced:
        return Reading.of(traced[quantile], Unit.SECONDS, item.source, events=item.traced)
    return evidence.read(
        latency_quantile(quantile), Subject(server=item.server, model=item.ensemble or item.stages[0].model)
    )


def covered(latency: Reading) -> str:
    """Return the time that a latency covers, as ` over the last 60 s`; empty where that is the window."""
    return "" if latency.span is None else f" over the last {latency.span:.0f} s"
