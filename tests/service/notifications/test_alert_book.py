from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.checks.check import Severity
from diagnostics.service.notifications import alerts
from diagnostics.service.notifications.alerts import FORGOTTEN_AFTER, REPEATED_FOR, AlertBook
from tests.sinks.incidents import BEGIN, LINKS, closed, incident, opened, updated

ONE = incident()
AT = BEGIN + 600


class Clock:
    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def book(clock: Clock, **options: object) -> AlertBook:
    return AlertBook(LINKS, ["a", "b"], clock=clock, **options)


def ends(book: AlertBook) -> list[float | None]:
    return [alert.ended for alert, _ in book.current()]


def test_an_incident_fires_from_its_onset_until_it_ends(clock: Clock) -> None:
    own = book(clock)
    assert own.consume(opened(ONE))
    ((alert, _),) = own.current()
    assert (alert.starts_at, alert.ended) == (ONE.onset, None)
    assert not own.consume(updated(ONE))
    assert own.consume(closed(ONE, at=AT))
    assert ends(own) == [AT]


def test_an_alert_of_another_severity_takes_the_place_of_the_one_before(clock: Clock) -> None:
    own = book(clock)
    own.consume(opened(ONE))
    assert own.consume(updated(replace(ONE, severity=Severity.CRITICAL)))
    firing, ended = (alert for alert, _ in own.current())
    assert [(one.labels["severity"], one.ended) for one in (firing, ended)] == [("critical", None), ("warning", AT)]
    assert ended.annotations["ended_because"] == "its severity is critical now"
    own.consume(updated(ONE))
    assert [(one.labels["severity"], one.ended) for one, _ in own.current()] == [("warning", None), ("critical", AT)]


def test_an_end_is_kept_until_everyone_took_it_and_has_captured_it_for_a_while(clock: Clock) -> None:
    own = book(clock)
    own.consume(opened(ONE))
    own.consume(closed(ONE, at=AT))
    ended = [own.current()[0][0]]
    assert own.waiting == 1
    assert own.taken("a", ended)
    assert not own.taken("a", ended)
    clock.now = AT + REPEATED_FOR + 1
    assert ends(own) == [AT]
    own.taken("b", ended)
    assert (own.waiting, ends(own)) == (0, [])


def test_a_receiver_that_never_comes_back_holds_nothing_for_ever(clock: Clock) -> None:
    own = book(clock)
    own.consume(opened(ONE))
    own.consume(closed(ONE, at=AT))
    clock.now = AT + FORGOTTEN_AFTER + 1
    assert ends(own) == []


def test_ends_are_bounded_and_the_oldest_fall(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MOST_ENDED", 5)
    own = book(clock)
    many = [replace(ONE, id=str(number), deployment=str(number)) for number in range(7)]
    own.consume(opened(*many))
    own.consume(closed(*many, at=AT))
    assert [alert.labels["deployment"] for alert, _ in own.current()] == ["2", "3", "4", "5", "6"]
    assert own.dropped == 2


def test_a_cause_that_comes_back_is_not_ended_by_the_end_of_the_last_time(clock: Clock) -> None:
    own = book(clock)
    own.consume(opened(ONE))
    own.consume(closed(ONE, at=AT))
    own.consume(opened(replace(ONE, id="again", onset=AT + 60)))
    ((alert, _),) = own.current()
    assert (alert.starts_at, alert.ended) == (AT + 60, None)


def test_only_what_was_once_severe_enough_fires_and_goes_on_when_it_eases(clock: Clock) -> None:
    own = book(clock, least=Severity.CRITICAL)
    assert not own.consume(opened(ONE))
    assert own.current() == []
    assert own.consume(updated(replace(ONE, severity=Severity.CRITICAL, worst=Severity.CRITICAL)))
    own.consume(updated(replace(ONE, worst=Severity.CRITICAL)))
    assert [alert.labels["severity"] for alert, _ in own.current() if alert.ended is None] == ["warning"]


def test_a_consequence_names_its_cause_also_when_both_open_at_once(clock: Clock) -> None:
    own = book(clock)
    consequence = incident("capacity-exceeded", caused_by=ONE.id)
    own.consume(opened(consequence, ONE))
    reported = {alert.labels["check"]: alert.annotations.get("caused_by") for alert, _ in own.current()}
    assert reported == {"gpu-saturated": None, "capacity-exceeded": f"gpu-saturated: {LINKS.incident(ONE.id)}"}


def test_after_a_restart_labels_and_start_are_the_same_and_an_end_is_still_reported(clock: Clock) -> None:
    first, other = book(clock), incident("cold-start")
    first.consume(opened(ONE, other))
    before = {alert.key: alert.starts_at for alert, _ in first.current()}
    first.consume(closed(other, at=AT))
    first.taken("a", [alert for alert, _ in first.current()])
    saved: list[str] = []
    first.save(lambda document: saved.append(json.dumps(document)))
    assert not first.unsaved()
    second = book(clock)
    second.load(json.loads(saved[-1]))
    second.resume([ONE])
    assert {alert.key: alert.starts_at for alert, _ in second.current()} == before
    assert [(alert.ended, taken) for alert, taken in second.current()] == [(None, frozenset()), (AT, frozenset("a"))]


def test_an_end_that_the_history_does_not_know_of_is_taken_back(clock: Clock) -> None:
    first = book(clock)
    first.consume(opened(ONE))
    first.consume(closed(ONE, at=AT))
    second = book(clock)
    first.save(second.load)
    second.resume([ONE])
    assert ends(second) == [None]


def test_what_could_not_be_written_counts_as_unsaved(clock: Clock) -> None:
    own = book(clock)
    own.consume(opened(ONE))
    assert not own.unsaved(), "what fires is in the history"
    own.consume(closed(ONE, at=AT))

    def fail(_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        own.save(fail)
    assert own.unsaved()
