"""A latency objective as people write it: `p95 < 200ms`, `mean<1.5s`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.target import LatencyTarget
from diagnostics.signals.signal import Signal, Subject
from diagnostics.signals.triton import latency_quantile
from diagnostics.units import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective(LatencyTarget):
    """A target that evidence is held against."""

    def missed(self, evidence: Evidence, anatomy: Sequence[Anatomy]) -> tuple[Symptom, ...]:
        """Return a symptom per entry that misses the objective; one that cannot be measured says so."""
        found = []
        for item in anatomy:
            name = item.ensemble or item.stages[0].model
            value = latency_of(evidence, item, self.quantile)
            if value is None:
                mean = Unit.SECONDS.show(item.mean_seconds)
                found.append(
                    Symptom(
                        entry=name,
                        figure=f"{name} mean {mean} ({self.statistic} is not measured), {self._stated}",
                        text=f"whether {name} meets {self.text} is unknown: the server exports no such quantile",
                        next_measurement="start Triton with --metrics-config summary_latencies=true, or state a mean",
                    )
                )
            elif value > self.seconds:
                found.append(
                    Symptom(
                        entry=name,
                        figure=f"{name} {self.statistic} {Unit.SECONDS.show(value)}, "
                        f"objective {Unit.SECONDS.show(self.seconds)}",
                        text=f"{name} misses {self.text}: it is {Unit.SECONDS.show(value)}",
                        next_measurement="see where its time goes, below",
                        misses_objective=True,
                    )
                )
        return tuple(found)

    @property
    def _stated(self) -> str:
        return f"objective {self.statistic} {Unit.SECONDS.show(self.seconds)}"


def latency_of(evidence: Evidence, item: Anatomy, quantile: float | None = None) -> float | None:
    """Return the seconds that requests of an entry take: their mean, or a quantile where the server exports it."""
    if quantile is None:
        return item.mean_seconds
    signal: Signal = latency_quantile(quantile)
    return evidence.read(signal, Subject(server=item.server, model=item.ensemble or item.stages[0].model)).value
