from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.checks.check import Severity
from diagnostics.service.notifications.messages import KEPT_FOR, MOST_WAITING, MessageBook
from tests.service.notifications.test_alert_book import AT, Clock
from tests.sinks.incidents import closed, composed, incident, opened, updated

ONE = incident()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reported(book: MessageBook) -> list[tuple[str, str]]:
    """Take all messages; return their changes and incidents."""
    found = []
    while (one := book.first()) is not None:
        found.append((one.body["change"], one.body["incident"]["id"]))
        book.done(one, taken=True)
    return found


def restarted(book: MessageBook, clock: Clock) -> MessageBook:
    saved: list[str] = []
    book.save(lambda document: saved.append(json.dumps(document)))
    again = MessageBook(composed, clock=clock)
    again.load(json.loads(saved[0]))
    return again


def test_opening_changes_of_severity_and_the_end_are_reported_and_no_more(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    worse = replace(ONE, severity=Severity.CRITICAL, seen=AT)
    assert book.consume(opened(ONE))
    assert not book.consume(updated(replace(ONE, confidence=0.5)))
    assert book.consume(updated(worse))
    assert book.consume(closed(worse))
    assert reported(book) == [("opened", ONE.id), ("severity_changed", ONE.id), ("closed", ONE.id)]


def test_messages_that_were_not_taken_outlive_a_restart_in_order(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    book.consume(opened(ONE))
    book.consume(closed(ONE))
    again = restarted(book, clock)
    again.resume([])
    assert reported(again) == [("opened", ONE.id), ("closed", ONE.id)]


def test_after_a_restart_only_what_is_new_is_reported(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    book.consume(opened(ONE))
    reported(book)
    again = restarted(book, clock)
    again.resume([ONE])
    assert reported(again) == []
    again.resume([ONE, incident("cold-start")])
    assert reported(again) == [("opened", "cold-start-1")]


def test_an_incident_that_ended_while_nobody_could_tell_it_is_reported_at_the_start(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    book.consume(opened(ONE))
    reported(book)
    again = restarted(book, clock)
    again.resume([])
    one = again.first()
    assert one is not None
    assert (one.id, one.body["change"], one.body["incident"]["closed"]) == (f"{ONE.id}.closed", "closed", AT)


def test_what_waits_is_bounded_by_number_and_by_age(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    book.consume(opened(*(replace(ONE, id=str(number)) for number in range(MOST_WAITING + 3))))
    assert (book.waiting, book.dropped) == (MOST_WAITING, 3)
    clock.now += KEPT_FOR + 1
    assert book.first() is None
    assert book.dropped == MOST_WAITING + 3


def test_a_message_that_is_refused_is_let_go_and_counted(clock: Clock) -> None:
    book = MessageBook(composed, clock=clock)
    book.consume(opened(ONE))
    one = book.first()
    assert one is not None
    book.done(one, taken=False)
    assert (book.first(), book.dropped) == (None, 1)
