from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.service.notifications.alerts import AlertBook
from diagnostics.service.notifications.feeds import AHEAD, BATCH, AlertFeed
from exporters.sinks.posting import DeliveryFailure
from tests.sinks.incidents import LINKS, closed, incident, opened

CAUSE = incident()
CONSEQUENCE = incident("capacity-exceeded", caused_by=CAUSE.id)
RESEND = 60.0


class Receiver:
    """Notes the checks of each request, and fails as told."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.failure: DeliveryFailure | None = None

    def post(self, body: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.requests.append([alert["labels"]["check"] for alert in json.loads(body)])


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def book() -> AlertBook:
    return AlertBook(LINKS, ["a"], clock=lambda: CAUSE.onset + 600)


@pytest.fixture
def feed(book: AlertBook, receiver: Receiver) -> AlertFeed:
    return AlertFeed("a", book, receiver, RESEND)


def test_an_alert_is_due_at_once_and_then_every_so_often(book: AlertBook, feed: AlertFeed) -> None:
    assert feed.due(10.0) is None
    book.consume(opened(CAUSE))
    assert feed.due(10.0) == 10.0
    feed.deliver(10.0)
    assert feed.due(11.0) == 10.0 + RESEND


def test_a_cause_is_sent_ahead_of_its_consequences(book: AlertBook, feed: AlertFeed, receiver: Receiver) -> None:
    book.consume(opened(CONSEQUENCE, CAUSE))
    feed.deliver(10.0)
    assert feed.due(10.0) == 10.0 + AHEAD
    feed.deliver(10.0 + AHEAD)
    assert receiver.requests == [["gpu-saturated"], ["capacity-exceeded"]]


def test_a_consequence_whose_cause_is_not_sent_waits_for_nothing(feed: AlertFeed, book: AlertBook) -> None:
    book.consume(opened(CONSEQUENCE))
    assert feed.due(10.0) == 10.0


def test_consequences_end_before_their_cause(book: AlertBook, feed: AlertFeed, receiver: Receiver) -> None:
    book.consume(opened(CAUSE, CONSEQUENCE))
    book.consume(closed(CAUSE, CONSEQUENCE))
    feed.deliver(10.0)
    assert receiver.requests == [["capacity-exceeded", "gpu-saturated"]]


def test_an_end_is_sent_at_once_and_what_is_half_due_goes_with_it(
    book: AlertBook, feed: AlertFeed, receiver: Receiver
) -> None:
    others = [incident("cold-start"), incident("execution-hung")]
    book.consume(opened(others[0]))
    feed.deliver(0.0)
    book.consume(opened(others[1]))
    feed.deliver(40.0)
    assert receiver.requests[-1] == ["execution-hung", "cold-start"]
    book.consume(closed(others[0]))
    assert feed.due(41.0) == 41.0
    feed.deliver(41.0)
    assert receiver.requests[-1] == ["cold-start"]


def test_a_flood_is_sent_in_batches(book: AlertBook, feed: AlertFeed, receiver: Receiver) -> None:
    book.consume(opened(*(replace(CAUSE, id=str(number), deployment=str(number)) for number in range(BATCH + 1))))
    feed.deliver(0.0)
    feed.deliver(0.1)
    assert [len(request) for request in receiver.requests] == [BATCH, 1]


def test_after_a_failure_all_is_sent_anew(book: AlertBook, feed: AlertFeed, receiver: Receiver) -> None:
    book.consume(opened(CAUSE))
    feed.deliver(0.0)
    receiver.failure = DeliveryFailure("connection refused")
    with pytest.raises(DeliveryFailure):
        feed.deliver(60.0)
    assert feed.due(61.0) == 61.0


def test_what_is_refused_waits_for_its_next_turn_and_an_end_is_given_up(
    book: AlertBook, feed: AlertFeed, receiver: Receiver
) -> None:
    book.consume(opened(CAUSE))
    book.consume(closed(CAUSE))
    receiver.failure = DeliveryFailure("HTTP 400", refused=True)
    with pytest.raises(DeliveryFailure):
        feed.deliver(0.0)
    assert feed.due(1.0) == RESEND
    assert book.waiting == 0
