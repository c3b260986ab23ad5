"""What the page of one deployment shows, now or at another time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlencode

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import CollectError
from diagnostics.render import phrases
from diagnostics.render.explanation.html import considered, drawn, leading_course, reported
from diagnostics.render.explanation.why_not import account
from diagnostics.render.slo.document import budget_left
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.incidents import IncidentFilter, find
from diagnostics.service.http.page.timelines import RANGES, RangeRequest, models, name_of
from diagnostics.service.standing import UNREACHABLE, Standing, standings
from diagnostics.service.state import Evaluation, LiveState
from diagnostics.slo.replaying import of_deployment

# Each has a graph and waterfalls; beyond, entries are rows of a table.
ENTRIES_DRAWN = 12
# Of a deployment's past on its own page.
INCIDENTS_SHOWN = 20
# Replays cost processor time, which the verdicts on what is live need more.
REPLAYS_AT_ONCE, REPLAY_PATIENCE = 2, 20.0

Values = dict[str, object]
_replays = threading.BoundedSemaphore(REPLAYS_AT_ONCE)


def standings_now(context: WebContext) -> tuple[Standing, ...]:
    """Return how all deployments stand, what needs someone first."""
    return standings(context.service.board.read(), context.service.deployments)


def standing_of(context: WebContext, name: str) -> Standing | None:
    """Return how a deployment stands now; None where there is none of that name."""
    return next((one for one in standings_now(context) if one.name == name), None)


def at_another_time(context: WebContext, name: str, at: float) -> Standing | None:
    """Return how a deployment stood at Unix second `at`; None without a history.

    Raises:
        CollectError: its bodies cannot be read, or are not of that time any more.

    """
    if context.history is None:
        return None
    watched = context.service.deployments.get(name)
    explanation = replayed(context, name, at, watched.objective if watched else None)
    evaluation = Evaluation(deployment=name, at=at, took=0.0, lag=0.0, explanation=explanation)
    return standings(LiveState(evaluations={name: evaluation}))[0]


def replayed(context: WebContext, name: str, at: float, objective: Objective | None) -> Explanation:
    """Return the verdict on the window that ended at Unix second `at`.

    Raises:
        CollectError: nothing is remembered of that time, or others ask for too much of the past.

    """
    assert context.history is not None
    with _in_turn():
        try:
            return context.history.explain_at(name, at, context.service.settings.collect.window, objective)
        except OSError as error:
            raise CollectError(f"its recorded bodies cannot be read: {error.strerror or error}", where=name) from None


@contextmanager
def _in_turn() -> Iterator[None]:
    if not _replays.acquire(timeout=REPLAY_PATIENCE):
        raise CollectError("others are looking at the past too", hint="try again in a minute")
    try:
        yield
    finally:
        _replays.release()


def values(
    context: WebContext,
    standing: Standing,
    check: str,
    at: float | None = None,
    model: str = "",
    span: RangeRequest = RangeRequest(),  # noqa: B008 - it is frozen
) -> Values:
    """Return what the template shows of a deployment; `model` and `span` are those of its timelines."""
    explanation = standing.explanation
    remembers = context.history is not None
    return {
        "name": standing.name,
        "standing": standing,
        "felt": felt(context, standing, now=at is None),
        "explanation": explanation,
        "at": at,
        "check": check,
        "remembers": remembers,
        "started": context.service.board.read().started,
        "incidents": find(
            context.history, standing.incidents, IncidentFilter(deployment=standing.name), INCIDENTS_SHOWN
        ).incidents,
        "span": span,
        **(_of(explanation, check) | _timeline(explanation, model, span) if explanation else _NOTHING),
    }


def felt(context: WebContext, standing: Standing, *, now: bool = True) -> str:
    """Return what users of a deployment feel, as the terminal's first line says it, and what is left of its budgets.

    Budgets are left out unless the standing is that of `now`. Empty where no server of it can be read.
    """
    if standing.explanation is None or standing.word == UNREACHABLE:
        return ""
    keeper = context.objectives if now else None
    budgets = [
        budget_left(report)
        for report in (keeper.recent() if keeper else ())
        if of_deployment(report.slo, standing.name)
    ]
    first = next(iter(standing.explanation.actionable), None)
    words = phrases.felt(standing.explanation, first)
    return ", ".join(part for part in (words, *budgets) if part)


_NOTHING: Mapping[str, object] = {
    "reported": (),
    "drawn": (),
    "rest": (),
    "considered": {},
    "course": None,
    "models": (),
    "account": (),
}


def _of(explanation: Explanation, check: str) -> Values:
    return {
        "reported": tuple(reported(explanation)),
        "drawn": tuple(drawn(explanation, ENTRIES_DRAWN)),
        "rest": explanation.anatomy[ENTRIES_DRAWN:],
        "considered": considered(explanation),
        "course": leading_course(explanation),
        "account": why_not(explanation, check),
    }


def _timeline(explanation: Explanation, model: str, span: RangeRequest) -> Values:
    """Return the models that can be charted by name, which one is, and the parameters of its charts."""
    subjects = models(explanation)
    several = len({one.server for one in subjects}) > 1
    named = {name_of(one, several=several): one for one in subjects}
    chosen = model if model in named else next(iter(named), "")
    parameters = {"server": named[chosen].server, "model": named[chosen].model} if named else {}
    return {
        "models": tuple(named),
        "chosen": chosen,
        "parameters": urlencode(parameters | span.query, errors="replace"),
        "spans": [
            (
                name,
                seconds == span.since and not span.start and not span.end,
                urlencode({"model": chosen, "since": f"{seconds:.0f}"}, errors="replace"),
            )
            for name, seconds in RANGES
        ],
    }


def why_not(explanation: Explanation, check: str) -> Sequence[str]:
    """Return the account of a check, line by line; nothing where it had no subject."""
    results = [result for result in explanation.results if result.check.id == check]
    return account(results).strip().splitlines() if results else ()


def moment(text: str) -> float | None:
    """Return the Unix seconds that an address names, as a number or as ISO 8601 in UTC; None when it names none."""
    try:
        return float(text) if 0 <= float(text) < 1e11 else None
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
