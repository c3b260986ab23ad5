"""An incident whose traffic ended says so, with the time of the last request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from diagnostics.diagnosis.incident import Ending, Incident, IncidentBook
from diagnostics.diagnosis.last_traffic import LastTraffic
from diagnostics.signals.signal import Subject
from diagnostics.window.rolling import RollingWindow
from tests.builders import SERVER, START, Counts, Stage, SyntheticTriton, explained, model_config

INTERVAL, LAST = 5.0, 26
FULL = Stage("safety", rate=40.0, execution=0.0243, queue=0.4, config=model_config("safety"))
WINDOW = 120.0


def ended(then: Stage | None, *, reads: int = 90, **more: object) -> tuple[float, Incident]:
    """Return when the incident of a full instance ends after read `LAST`, when only `then` is left of its traffic."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
        full = FULL.after(100.0 + min(number, LAST) * INTERVAL)
        after = then.after(max(number - LAST, 0) * INTERVAL) if then else Counts()
        (key,) = rows
        return {key: Counts(**{name: getattr(full, name) + getattr(after, name) for name in SUMMED})}

    window, book = RollingWindow("chat", WINDOW), IncidentBook("chat", close_after=WINDOW)
    rounds: dict[float, list[object]] = {}
    for scrape in SyntheticTriton(models=(FULL,), alter=alter, interval=INTERVAL, **more).scrapes(reads):
        rounds.setdefault(scrape.mono // INTERVAL * INTERVAL, []).append(scrape)
    for at, scrapes in sorted(rounds.items()):
        for scrape in scrapes:
            window.add(scrape)
        for change in book.update(explained(window.window(), present=True), at, at):
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


@pytest.mark.parametrize(("waiting", "ends"), [(3, None), (0, START + 10.0)])
def test_requests_that_wait_are_traffic(waiting: int, ends: float | None):
    """What hangs completes nothing, and its callers wait."""
    lines = (f'nv_inference_pending_request_count{{model="safety",version="1"}} {waiting}',)
    triton = SyntheticTriton(
        models=(FULL,),
        alter=lambda number, rows: {key: FULL.after(100.0 + min(number, 2) * INTERVAL) for key in rows},
        extra_metrics=lambda _: lines,
    )
    traffic = LastTraffic()
    traffic.look("a", Subject(server=SERVER, model="safety"), triton.evidence(13), 60.0)
    assert traffic.ended("a") == ends


def test_an_incident_of_a_server_that_is_not_in_the_window_neither_ends_by_it_nor_fails():
    _, incident = ended(None)
    book = IncidentBook("chat")
    book.restore([replace(incident, closed=None, ending=None, subject=replace(incident.subject, server="other"))])
    window = RollingWindow("chat", WINDOW)
    for scrape in SyntheticTriton(models=(FULL,)).scrapes(13):
        window.add(scrape)
    book.update(explained(window.window(), present=True), START + 60.0, START + 60.0)
    assert [one.subject.server for one in book.open] == ["other"]
