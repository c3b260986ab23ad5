"""How each deployment stands: one word, one sentence, and what comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.anatomy.cells import Anatomy
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.undecided import unseen_time
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.render import phrases
from diagnostics.service.state import OLD_AFTER, Evaluation, LiveState, TargetState
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import REQUEST_SECONDS

_TONES = {
    Verdict.HEALTHY: "healthy",
    Verdict.IDLE: "quiet",
    Verdict.INSUFFICIENT_DATA: "warning",
    Verdict.NO_CLEAR_CAUSE: "warning",
    Verdict.DEGRADED: "warning",
}
UNREACHABLE, PARTLY = "unreachable", "partly unreachable"
_ORDER = ("critical", "warning", "quiet", "healthy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A deployment as it stands.

    Attributes:
        name: its name.
        word: its verdict, `unreachable` when no server of it answers, `partly unreachable` when one that had requests
            does not, or `waiting` before the first verdict.
        tone: `critical`, `warning`, `quiet` or `healthy`, which also orders.
        headline: why, in one sentence.
        evaluation: the newest; None before the first.
        targets: its servers.
        incidents: its open ones, the worst first.
        old: whether the verdict is of a time before the last rounds.

    """

    name: str
    word: str
    tone: str
    headline: str
    evaluation: Evaluation | None
    targets: tuple[TargetState, ...]
    incidents: tuple[Incident, ...]
    old: bool = False

    @property
    def explanation(self) -> Explanation | None:
        """The newest verdict with its evidence."""
        return self.evaluation.explanation if self.evaluation else None

    @property
    def down(self) -> tuple[TargetState, ...]:
        """Servers whose last round failed."""
        return tuple(one for one in self.targets if is_down(one))

    @property
    def well(self) -> bool:
        """Whether nobody has to look at it."""
        return self.tone in ("healthy", "quiet") and not self.down


def is_down(target: TargetState) -> bool:
    """Return whether a target's last round failed; not before its first."""
    return target.last_round is not None and not target.up


def standings(state: LiveState, names: Iterable[str] = ()) -> tuple[Standing, ...]:
    """Return all deployments, those of `names` too before anything was read of them; what needs someone first."""
    targets = _grouped(state)
    names = dict.fromkeys((*names, *targets, *state.evaluations))
    found = (_standing(name, targets.get(name, ()), state) for name in names)
    return tuple(sorted(found, key=_rank))


def _grouped(state: LiveState) -> Mapping[str, Sequence[TargetState]]:
    found: dict[str, list[TargetState]] = {}
    for target in sorted(state.targets.values(), key=lambda one: (one.server, one.url)):
        found.setdefault(target.deployment, []).append(target)
    return found


def _standing(name: str, targets: Sequence[TargetState], state: LiveState) -> Standing:
    evaluation = state.evaluations.get(name)
    word, tone, headline = _stated(targets, evaluation)
    return Standing(
        name=name,
        word=word,
        tone=tone,
        headline=headline,
        evaluation=evaluation,
        targets=tuple(targets),
        incidents=tuple(one for one in state.incidents if one.deployment == name),
        old=_is_old(targets, evaluation),
    )


def _stated(targets: Sequence[TargetState], evaluation: Evaluation | None) -> tuple[str, str, str]:
    down = [one for one in targets if is_down(one)]
    if down and len(down) == len(targets):
        return UNREACHABLE, "critical" if any(map(_missed, down)) else "warning", _unreachable(down)
    if evaluation is None:
        return "waiting", "quiet", "waiting for the first round"
    explanation = evaluation.explanation
    needed = any(one.served for one in down)
    word = PARTLY if needed and not explanation.actionable else explanation.verdict.value
    return word, _tone(explanation, needed=needed, some_down=bool(down)), phrases.headline(explanation)


def _missed(target: TargetState) -> bool:
    """Return whether requests may be missing a server that is down: it had some, or was there and not judged yet."""
    return target.served or (target.served is None and target.last_success is not None)


def _tone(explanation: Explanation, *, needed: bool, some_down: bool) -> str:
    if needed or any(one.severity is Severity.CRITICAL for one in explanation.actionable):
        return "critical"
    return "warning" if some_down else _TONES[explanation.verdict]


def _unreachable(down: Sequence[TargetState]) -> str:
    return f"{down[0].server} cannot be read" if len(down) == 1 else f"none of its {len(down)} servers can be read"


def reason(target: TargetState) -> str:
    """Return why a target cannot be read, without the name that it is told beside."""
    return target.error.removeprefix(f"{target.url}: ").removeprefix(f"{target.server}: ")


def _is_old(targets: Sequence[TargetState], evaluation: Evaluation | None) -> bool:
    rounds = [one.last_round for one in targets if one.last_round is not None]
    if evaluation is None or not rounds:
        return False
    return max(rounds) - evaluation.at > OLD_AFTER * max(one.interval for one in targets)


def _rank(standing: Standing) -> tuple[int, float, int, str]:
    """Critical first, then by the harm to requests; what cannot be read, whose harm nobody knows, before what has none.

    The last verdict on what cannot be read tells of the past. What was never read comes last: it may be a wrong name.
    """
    actionable = standing.explanation.actionable if standing.explanation and standing.word != UNREACHABLE else ()
    harm = max((one.impact.harm for one in actionable), default=0.0)
    return _ORDER.index(standing.tone), -harm, _place(standing), standing.name


def _place(standing: Standing) -> int:
    if standing.word in (UNREACHABLE, PARTLY):
        return 0 if any(one.last_success is not None for one in standing.down) else 2
    wrong = standing.explanation is not None and _TONES[standing.explanation.verdict] == "warning"
    return 1 if wrong else 2


def roots(incidents: Sequence[Incident]) -> Iterator[tuple[Incident, tuple[Incident, ...]]]:
    """Yield the incidents that no other one causes, in their order, each with its consequences."""
    known = {one.id for one in incidents}
    for one in incidents:
        if one.caused_by not in known:
            yield one, tuple(other for other in incidents if other.caused_by == one.id)


def since(standing: Standing) -> float | None:
    """Return since when the first finding lasts, Unix seconds: its incident's onset, else its own; None if unknown."""
    explanation = standing.explanation
    if explanation is None or not explanation.actionable:
        return None
    first = explanation.actionable[0]
    known = next((one.onset for one in standing.incidents if one.fingerprint == first.id), None)
    return known if known is not None else (first.onset.at if first.onset else None)


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
    """A deployment's row. Without traffic `entry` is empty, the figures are None and there is no `spark`."""

    entry: str = ""
    mean_seconds: float | None = None
    per_second: float | None = None
    spark: Spark | None = None


class Fleet:
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
