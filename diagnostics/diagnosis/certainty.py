"""Whether a window is long enough to speak from, and if not, why not."""

from __future__ import annotations

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.signal import Scope
from diagnostics.signals.triton import REQUESTS

# Counters move on completion: one instance with 3 s executions reads 0, 1.5, 1.5, 0 busy in steps of 2 s. Over twenty
# mean executions the one cut off at either end is 5 %.
EXECUTIONS_PER_SPAN = 20
# Shorter than this, a stall of half a second (queue policy wake-ups) or one burst decides the mean.
SHORTEST_SECONDS = 10.0


def reason_to_keep_reading(explanation: Explanation, previous: Explanation | None) -> str:
    """Return why a longer window would say more; empty when it would not.

    Args:
        explanation: of the window so far.
        previous: of the same window a little earlier; None at first.

    """
    seconds = explanation.window.end - explanation.window.start
    if seconds < SHORTEST_SECONDS:
        return f"{seconds:.0f} s are too short to tell a lasting cause from a short one"
    longest = _longest_execution(explanation.evidence)
    if longest and seconds < EXECUTIONS_PER_SPAN * longest[1]:
        return f"executions of {longest[0]} take {longest[1]:.2g} s, and counters move when they end"
    if explanation.verdict in (Verdict.IDLE, Verdict.INSUFFICIENT_DATA):
        return explanation.reason
    busiest = max((item.requests for item in explanation.anatomy), default=0.0)
    if busiest < ENOUGH_EVENTS:
        return f"only {busiest:.0f} requests completed so far"
    if previous is None or _answer(previous) != _answer(explanation):
        return "the answer has just changed"
    if explanation.actionable and any(line.straddles for line in explanation.actionable[0].evidence):
        return f"the evidence for {explanation.actionable[0].check} is close to its limits"
    return ""


def _longest_execution(evidence: Evidence) -> tuple[str, float] | None:
    found = [
        (model.model or "", seconds)
        for model in evidence.subjects(Scope.MODEL)
        if evidence.read(REQUESTS, model).value and (seconds := evidence.read(EXECUTION_SECONDS, model).value)
    ]
    return max(found, key=lambda item: item[1], default=None)


def _answer(explanation: Explanation) -> tuple[Verdict, str | None]:
    return explanation.verdict, explanation.actionable[0].id if explanation.actionable else None
