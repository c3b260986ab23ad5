"""A latency objective as people write it: `p95 < 200ms`, `mean<1.5s`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.errors import UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.latency import latency_quantile
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Subject
from diagnostics.units import Unit

_PATTERN = re.compile(r"^\s*(mean|p[1-9]\d|p99\d)\s*<=?\s*([0-9.]+)\s*(us|µs|ms|s)\s*$")
_SCALE = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A statistic of end-to-end latency and the seconds it must stay under. `quantile` None means the mean."""

    quantile: float | None
    seconds: float
    text: str

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Return the objective.

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
            raise UsageError(f"{number!r} {unit} can be neither met nor missed", where="--objective")
        quantile = None if word == "mean" else float(f"0.{word[1:]}")
        return cls(quantile=quantile, seconds=seconds, text=text.strip())

    def missed(self, evidence: Evidence, anatomy: Sequence[Anatomy]) -> tuple[Symptom, ...]:
        """Return a symptom per entry that misses the objective; one that cannot be measured says so."""
        found = []
        for item in anatomy:
            name = item.ensemble or item.stages[0].model
            value = self._measured(evidence, item, name)
            if value is None:
                found.append(
                    Symptom(
                        text=f"whether {name} meets {self.text} is unknown: the server exports no such quantile",
                        next_measurement="start Triton with --metrics-config summary_latencies=true, or state a mean",
                    )
                )
            elif value > self.seconds:
                found.append(
                    Symptom(
                        text=f"{name} misses {self.text}: it is {Unit.SECONDS.show(value)}",
                        next_measurement="see the anatomy for where the time goes",
                        misses_objective=True,
                    )
                )
        return tuple(found)

    def _measured(self, evidence: Evidence, item: Anatomy, name: str) -> float | None:
        if self.quantile is None:
            return item.mean_seconds
        signal: Signal = latency_quantile(self.quantile)
        return evidence.read(signal, Subject(server=item.server, model=name)).value
