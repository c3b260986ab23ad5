"""How each deployment stands: one word, one sentence, and what comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.incident import Incident
from diagnostics.render import phrases
from diagnostics.service.state import Evaluation, LiveState, TargetState

_TONES = {
    Verdict.HEALTHY: "healthy",
    Verdict.IDLE: "quiet",
    Verdict.INSUFFICIENT_DATA: "warning",
    Verdict.NO_CLEAR_CAUSE: "warning",
    Verdict.DEGRADED: "warning",
}
UNREACHABLE, PARTLY = "unreachable", "partly unreachable"
# Of tones, the worst first.
ORDER = ("critical", "warning", "quiet", "healthy")


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
        late: whether newer data has waited too long for a verdict.

    """

    name: str
    word: str
    tone: str
    headline: str
    evaluation: Evaluation | None
    targets: tuple[TargetState, ...]
    incidents: tuple[Incident, ...]
    late: bool = False

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
        late=state.is_late(name),
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
    """Return why a target cannot be read, without the name that stands beside it."""
    return target.error.removeprefix(f"{target.url}: ").removeprefix(f"{target.server}: ")


def _rank(standing: Standing) -> tuple[int, float, int, str]:
    """Critical first, then by the harm to requests; what cannot be read, whose harm nobody knows, before what has none.

    What was never read comes last: it may be a wrong name.
    """
    return ORDER.index(standing.tone), -harm_of(standing), place_of(standing), standing.name


def harm_of(standing: Standing) -> float:
    """Return the share of latency or of requests that the worst cause takes, 0 to 1.

    It is 0 where nothing can be read: the last verdict is about the past.
    """
    actionable = standing.explanation.actionable if standing.explanation and standing.word != UNREACHABLE else ()
    return max((one.impact.harm for one in actionable), default=0.0)


def place_of(standing: Standing) -> int:
    """Return the order among deployments of one tone and the same harm.

    0 is one that was read before and cannot be now, 1 one that is not healthy, 2 any other, as one never read.
    """
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
