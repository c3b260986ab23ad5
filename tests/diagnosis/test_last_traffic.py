"""An incident whose traffic ended says so, with the time of the last request."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.diagnosis.explanation import explain_window
from diagnostics.diagnosis.incident import Ending, Incident, IncidentBook
from diagnostics.window.rolling import RollingWindow
from tests.builders import START, Counts, Stage, SyntheticTriton, model_config

INTERVAL, LAST = 5.0, 40
FULL = Stage("safety", rate=40.0, execution=0.0243, queue=0.4, config=model_config("safety"))
WINDOW = 300.0


def ended(then: Stage | None, *, reads: int = 180, **more: object) -> tuple[float, Incident]:
    """Return when the incident of a full instance ends after read `LAST`, when only `then` is left of its traffic."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        full = FULL.after(100.0 + min(number, LAST) * INTERVAL)
        after = then.after(max(number - LAST, 0) * INTERVAL) if then else Counts()
        (key,) = rows
        return {key: Counts(**{name: getattr(full, name) + getattr(after, name) for name in SUMMED})}

    window, book = RollingWindow("chat", WINDOW), IncidentBook("chat")
    rounds: dict[float, list[object]] = {}
    for scrape in SyntheticTriton(models=(FULL,), alter=alter, interval=INTERVAL, **more).scrapes(reads):
        rounds.setdefault(scrape.mono // INTERVAL * INTERVAL, []).append(scrape)
    for at, scrapes in sorted(rounds.items()):
        for scrape in scrapes:
            window.add(scrape)
        for change in book.update(explain_window(window.window(), present=True), at, at):
            if not change.incident.open:
                return at - START, change.incident
    raise AssertionError("it lasts")


SUMMED = ("requests", "items", "executions", "queue", "infer", "seconds")


def test_it_ends_when_the_last_request_did_and_says_that_only_traffic_ended():
    noticed, incident = ended(None)
    assert incident.ending is Ending.TRAFFIC_ENDED
    assert incident.closed == START + LAST * INTERVAL
    assert incident.seen <= incident.closed
    assert noticed - LAST * INTERVAL == WINDOW


def test_a_trickle_does_not_show_that_the_cause_is_gone():
    _, incident = ended(Stage("safety", rate=0.05, execution=0.0243))
    assert incident.ending is Ending.LITTLE_TRAFFIC


def test_traffic_that_goes_on_without_the_cause_shows_it_gone():
    _, incident = ended(Stage("safety", rate=8.0, execution=0.0243))
    assert incident.ending is Ending.GONE


def test_requests_that_wait_are_traffic():
    waiting = lambda _: ('nv_inference_pending_request_count{model="safety",version="1"} 3',)  # noqa: E731
    _, incident = ended(None, extra_metrics=waiting)
    assert incident.ending is not Ending.TRAFFIC_ENDED
