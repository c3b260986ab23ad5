from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from diagnostics.service.notifications.sender import DeliveryThread
from exporters.sinks.posting import DeliveryFailure
from tests.service.parts import until


class Script:
    """Work that ends as told: one entry per attempt, an exception or None; the last one stays."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes, self.attempts, self.waiting = list(outcomes), [], True
        self.gate: threading.Event | None = None

    def due(self, now: float) -> float | None:
        return now if self.waiting else None

    def deliver(self, now: float) -> None:
        if self.gate:
            self.gate.wait(10)
        self.attempts.append(now)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if outcome is not None:
            raise outcome
        self.waiting = False


@pytest.fixture
def counted() -> list[str]:
    return []


@pytest.fixture
def run(counted: list[str]) -> Iterator[object]:
    started: list[DeliveryThread] = []

    def begin(work: Script, **pauses: float) -> DeliveryThread:
        sender = DeliveryThread("r", work, counted.append, **{"first_pause": 0.02, "longest_pause": 0.1, **pauses})
        sender.start()
        started.append(sender)
        return sender

    yield begin
    for sender in started:
        sender.stop(1.0)


FAIL = DeliveryFailure("HTTP 503")


def test_work_is_repeated_with_growing_pauses_until_it_is_taken(
    run: object, counted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    work = Script(FAIL, FAIL, FAIL, None)
    run(work)
    until(lambda: counted[-1:] == ["ok"])
    assert counted == ["failed"] * 3 + ["ok"]
    pauses = [later - earlier for earlier, later in zip(work.attempts, work.attempts[1:], strict=False)]
    assert [pause >= least for pause, least in zip(pauses, (0.015, 0.03, 0.06), strict=True)] == [True] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "r did not take a message, which is kept and sent again: HTTP 503",
        "r takes messages again, after 3 failures",
    ]


def test_a_nudge_wakes_an_idle_sender_but_shortens_no_pause(run: object, counted: list[str]) -> None:
    work = Script(None, FAIL)
    sender = run(work, first_pause=30.0, longest_pause=60.0)
    until(lambda: counted == ["ok"])
    work.waiting = True
    sender.nudge()
    until(lambda: counted == ["ok", "failed"])
    for _ in range(20):
        sender.nudge()
    sender.stop(1.0)
    assert len(work.attempts) == 2


def test_a_receiver_that_asks_for_time_gets_it_up_to_the_longest_pause(run: object, counted: list[str]) -> None:
    work = Script(DeliveryFailure("HTTP 429", retry_after=3600.0), None)
    run(work, longest_pause=0.2)
    until(lambda: counted[-1:] == ["ok"])
    assert work.attempts[1] - work.attempts[0] >= 0.19


def test_a_mistake_of_ours_ends_no_thread(run: object, counted: list[str]) -> None:
    run(Script(ZeroDivisionError(), None))
    until(lambda: counted == ["failed", "ok"])


def test_the_end_tells_what_waits_and_does_not_wait_for_a_failing_receiver(counted: list[str]) -> None:
    work = Script(None)
    work.waiting, work.gate = True, threading.Event()
    sender = DeliveryThread("r", work, counted.append, longest_pause=1.0)
    sender.start()
    work.gate.set()
    sender.stop(5.0)
    assert counted == ["ok"]
    failing = DeliveryThread("r", Script(FAIL), counted.append, longest_pause=60.0, first_pause=60.0)
    failing.start()
    until(lambda: "failed" in counted)
    begun = time.monotonic()
    failing.stop(5.0)
    assert time.monotonic() - begun < 4
