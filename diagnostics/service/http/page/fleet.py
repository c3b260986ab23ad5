"""The fleet at a glance: a row per deployment, with the course of its requests in the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics.anatomy.cells import Anatomy
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.unread import unseen_time
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.service.http.page.standing import Standing
from diagnostics.service.state import Evaluation, LiveState
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import REQUEST_SECONDS

# The drawing's own units.
WIDTH, HEIGHT = 120.0, 24.0
# More points than this are finer than the drawing.
_STRETCHES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """The mean time of the busiest entry's requests over the window: path data, and the same in words."""

    path: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """A deployment's row. Without traffic `entry` is empty, the figures are None and there is no `spark`."""

    entry: str = ""
    mean_seconds: float | None = None
    per_second: float | None = None
    spark: Spark | None = None


class Fleet:
    """Makes rows, and keeps those whose verdict has not changed."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Evaluation, FleetRow]] = {}

    def take(self, state: LiveState) -> None:
        """Make the rows of new verdicts before anyone asks, while their windows are still at hand."""
        for name, evaluation in state.evaluations.items():
            self._row(name, evaluation)

    def rows(self, standings: Sequence[Standing]) -> Iterator[tuple[Standing, FleetRow]]:
        """Yield each deployment with its row."""
        gone = set(self._rows) - {one.name for one in standings}
        for name in gone:
            self._rows.pop(name, None)
        for one in standings:
            yield one, self._row(one.name, one.evaluation)

    def _row(self, name: str, evaluation: Evaluation | None) -> FleetRow:
        if evaluation is None:
            return FleetRow()
        known = self._rows.get(name)
        if known is None or known[0] is not evaluation:
            known = self._rows[name] = (evaluation, _made(evaluation.explanation))
        return known[1]


def _made(explanation: Explanation) -> FleetRow:
    if not explanation.anatomy:
        return FleetRow()
    busiest, window = explanation.anatomy[0], explanation.window
    seconds = window.end - window.start
    return FleetRow(
        entry=busiest.ensemble or busiest.stages[0].model,
        mean_seconds=None if unseen_time(explanation.evidence, busiest) else busiest.mean_seconds,
        per_second=busiest.requests / seconds if seconds > 0 else None,
        spark=_spark(explanation.evidence, busiest),
    )


def _spark(evidence: Evidence, item: Anatomy) -> Spark | None:
    on = Subject(server=item.server, ensemble=item.ensemble) if item.ensemble else _model(item)
    readings = series(evidence, REQUEST_SECONDS, on, instants(evidence.moments(item.server), _STRETCHES))
    values = [sample.reading.value for sample in readings]
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    show = REQUEST_SECONDS.unit.show
    return Spark(
        path=_path(values, max(known)),
        told=f"time of a request: {show(known[0])} at first, {show(known[-1])} at last",
    )


def _model(item: Anatomy) -> Subject:
    return Subject(server=item.server, model=item.stages[0].model)


def _path(values: Sequence[float | None], most: float) -> str:
    """Return a line through the known values, zero at the bottom; it breaks where a value is not known."""
    step, parts, drawing = WIDTH / max(len(values) - 1, 1), [], False
    for number, value in enumerate(values):
        if value is not None:
            y = HEIGHT - 2 - (HEIGHT - 4) * (value / most if most > 0 else 0.0)
            parts.append(f"{'L' if drawing else 'M'}{number * step:.1f},{y:.1f}")
        drawing = value is not None
    return " ".join(parts)
