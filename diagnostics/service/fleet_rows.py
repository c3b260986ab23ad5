"""A deployment in one row: which entry point, how long its requests take, how many come, and how that went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics.anatomy.cells import Anatomy
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.undecided import unseen_time
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.render import phrases
from diagnostics.service.standing import Standing
from diagnostics.service.state import Evaluation, LiveState
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import REQUEST_SECONDS

# The drawing's own units.
WIDTH, HEIGHT = 120.0, 24.0
# More points than this are finer than the drawing.
_STRETCHES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """The mean time of the busiest entry's requests over the window: path data, and the same in words."""

    path: str
    reported: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """The entry point of a deployment's first cause, else its busiest.

    Attributes:
        entry: its name; empty without traffic.
        statistic: which statistic of its request time is known, the objective's first: `p95` or `mean`.
        seconds: that statistic; None where most of the time is not seen.
        objective: what it must be; None where none is stated, and before the first verdict.
        per_second: requests; None without traffic.
        spark: its mean over the window; None where that has no two values.

    """

    entry: str = ""
    statistic: str = ""
    seconds: float | None = None
    objective: Objective | None = None
    per_second: float | None = None
    spark: Spark | None = None

    @property
    def missed(self) -> bool:
        """Whether the objective's own statistic is known, and above it."""
        one = self.objective
        return (
            one is not None
            and self.seconds is not None
            and self.statistic == one.statistic
            and self.seconds > one.seconds
        )


class FleetRows:
    """Makes rows, and keeps those whose verdict has not changed."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Evaluation, FleetRow]] = {}

    def update(self, state: LiveState) -> None:
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
    objective = explanation.objective
    if not explanation.anatomy:
        return FleetRow(objective=objective)
    entry, window = phrases.entries(explanation)[0], explanation.window
    span = window.end - window.start
    first = next((one for one in explanation.actionable[:1] if phrases.is_entry(entry, one.subject)), None)
    # What a load held back is in no counter, and in the finding's own mean.
    mean = max(entry.mean_seconds, first.impact.mean_seconds if first else 0.0)
    latency = phrases.entry_latency(explanation, entry, mean, objective)
    unseen = first is None and unseen_time(explanation.evidence, entry)
    return FleetRow(
        entry=entry.ensemble or entry.stages[0].model,
        statistic=latency.statistic,
        seconds=None if unseen else latency.seconds,
        objective=objective,
        per_second=entry.requests / span if span > 0 else None,
        spark=_spark(explanation.evidence, entry),
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
        reported=f"time of a request: {show(known[0])} at first, {show(known[-1])} at last",
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
