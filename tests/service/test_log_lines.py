from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Ending
from diagnostics.service.incident_log import IncidentLog
from diagnostics.service.log_lines import LINES_PER_MINUTE, EventRate, JsonLine, Logfmt, LoggedEvent, log_event
from diagnostics.service.notifications.alerts import AlertBook
from diagnostics.service.notifications.feeds import AlertFeed, MessageFeed, signed
from diagnostics.service.notifications.messages import MessageBook
from diagnostics.service.service import Service
from diagnostics.settings.tree import Settings
from exporters.sinks.posting import DeliveryFailure
from tests.service.parts import until
from tests.sinks.incidents import LINKS, closed, composed, incident, opened

Lines = Callable[[], list[dict[str, Any]]]


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("diagnostics")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def lines(kept: Kept) -> Lines:
    return lambda: [json.loads(JsonLine().format(record)) for record in kept.records]


def test_an_incident_is_logged_when_it_opens_changes_and_ends_and_not_between(lines: Lines, kept: Kept) -> None:
    logged, one = IncidentLog(), incident()
    worse = replace(one, severity=Severity.CRITICAL, worst=Severity.CRITICAL)
    logged.consume(opened(replace(one, severity=Severity.WARNING)))
    for each in (replace(one, severity=Severity.WARNING), worse, worse, replace(worse, caused_by="cause")):
        logged.consume(opened(each))
    logged.consume(closed(replace(worse, ending=Ending.GONE)))
    names = [line["event.name"] for line in lines()]
    assert names == ["diag.incident.opened", *["diag.incident.changed"] * 2, "diag.incident.ended"]
    assert [line["severity"] for line in lines()] == ["warning", "critical", "critical", "critical"]
    assert {line["incident"] for line in lines()} == {one.id}
    assert lines()[1]["severity_before"] == "warning"
    texts = [record.getMessage() for record in kept.records]
    assert texts[1] == f"incident changed from warning to critical: {one.title}"
    assert texts[2] == f"incident changed: {one.title}"
    assert (lines()[2]["caused_by"], lines()[2]["caused_by_before"]) == ("cause", "none")
    assert (lines()[3]["reason"], lines()[3]["severity_max"]) == ("gone", "critical")


def test_an_incident_of_an_earlier_run_is_not_opened_again(lines: Lines) -> None:
    IncidentLog([incident()]).consume(opened(incident()))
    assert lines() == []


class Receiver:
    def __init__(self, failure: DeliveryFailure | None = None) -> None:
        self.failure = failure

    def post(self, body: bytes, headers: object = None) -> int:
        if self.failure is not None:
            raise self.failure
        return 200


def test_an_alert_is_logged_once_however_often_it_is_repeated(lines: Lines) -> None:
    book = AlertBook(LINKS, ["am"], clock=lambda: incident().onset + 600)
    feed = AlertFeed("am", book, Receiver(), 60.0)
    book.consume(opened(incident()))
    for now in (0.0, 60.0, 120.0):
        feed.deliver(now)
    book.consume(closed(incident()))
    feed.deliver(121.0)
    assert [(line["event.name"], line["status"], line["receiver"]) for line in lines()] == [
        ("diag.notification.sent", "firing", "am"),
        ("diag.notification.sent", "resolved", "am"),
    ]


def test_a_message_that_is_refused_is_logged_with_the_reason(lines: Lines) -> None:
    book = MessageBook(composed, receiver="hook")
    book.consume(opened(incident()))
    with pytest.raises(DeliveryFailure):
        MessageFeed("hook", book, signed(Receiver(DeliveryFailure("HTTP 422", refused=True)), None)).deliver(0.0)
    (line,) = lines()
    assert (line["event.name"], line["level"], line["err"]) == ("diag.notification.dropped", "warn", "HTTP 422")
    assert (line["incident"], line["change"], line["receiver"]) == (incident().id, "opened", "hook")


def test_a_message_that_is_too_old_is_logged_as_dropped(lines: Lines) -> None:
    now = [0.0]
    book = MessageBook(composed, receiver="hook", clock=lambda: now[0])
    book.consume(opened(incident()))
    now[0] = 1e6
    assert book.first() is None
    assert [(line["event.name"], line["receiver"]) for line in lines()] == [("diag.notification.dropped", "hook")]


def test_a_server_that_cannot_be_reached_is_logged_once(lines: Lines) -> None:
    service = Service(
        Settings.model_validate({"server": [{"url": "http://127.0.0.1:9"}], "collect": {"interval": "1s"}})
    )
    service.start()
    try:
        until(lambda: any(one.failures > 1 for one in service.board.read().targets.values()))
    finally:
        service.stop()
    (line,) = [one for one in lines() if one.get("event.name", "").startswith("diag.server")]
    assert (line["event.name"], line["level"], line["url"]) == ("diag.server.lost", "warn", "http://127.0.0.1:9")
    assert line["err"]


def record(kept: Kept, **fields: str | float) -> logging.LogRecord:
    log_event(logging.getLogger("diagnostics.x"), LoggedEvent.SERVER_LOST, "server lost", **fields)
    return kept.records[-1]


def test_a_field_is_quoted_scrubbed_and_bounded(kept: Kept) -> None:
    line = Logfmt().format(record(kept, server="a b\n", err="http://user:hunter22@host/x", model="m" * 9_000, left=""))
    assert 'server="a b\\n"' in line
    assert "hunter22" not in line
    assert "\n" not in line
    assert "left=" not in line
    assert len(line) < 3_000


def test_a_message_and_a_stack_are_bounded_and_no_secret_is_cut_in_two(kept: Kept) -> None:
    """Libraries log what strangers send: a name of a tool of 60,000 characters."""
    secret = "http://user:hunter22hunter22@host/x"
    for before in range(1_960, 2_001):
        line = logging.makeLogRecord({"name": "mcp.server", "msg": "m" * before + secret + "m" * 60_000})
        assert "hunter" not in Logfmt().format(line)
    try:
        raise ValueError(secret + "m" * 9_950)  # noqa: TRY301 - its stack is what is logged
    except ValueError as error:
        stack = logging.makeLogRecord({"name": "mcp.server", "msg": "", "exc_info": (type(error), error, None)})
    assert len(Logfmt().format(line)) < 3_000
    assert len(Logfmt().format(stack)) < 11_000
    assert "hunter" not in Logfmt().format(stack)


def test_a_storm_of_one_event_leaves_room_for_others_and_says_what_it_left_out(kept: Kept) -> None:
    now = [0.0]
    rate = EventRate(lambda: now[0])
    passed = sum(rate.filter(record(kept)) for _ in range(LINES_PER_MINUTE + 50))
    assert passed == LINES_PER_MINUTE
    log_event(logging.getLogger("diagnostics.x"), LoggedEvent.INCIDENT_OPENED, "incident opened")
    other = kept.records[-1]
    assert rate.filter(other)
    assert json.loads(JsonLine().format(other))["suppressed"] == 50
    now[0] = 60.0
    assert rate.filter(record(kept))


def test_what_a_stranger_has_a_library_log_is_bounded(kept: Kept) -> None:
    rate = EventRate(lambda: 0.0)
    theirs = [logging.makeLogRecord({"name": "grpc._cython.cygrpc", "msg": "raised"})] * (LINES_PER_MINUTE + 50)
    assert sum(map(rate.filter, theirs)) == LINES_PER_MINUTE
    ours = logging.makeLogRecord({"name": "diagnostics.service", "msg": "ready"})
    assert all(rate.filter(ours) for _ in range(LINES_PER_MINUTE + 50))


@pytest.mark.parametrize("form", [Logfmt(), JsonLine()])
@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "\x9b31mred", "a\u2028level=error", "\u202egpj", "\x7f", "\ud800", "\U000e0041"]
)
def test_no_field_moves_a_cursor_or_ends_a_line(form: logging.Formatter, text: str) -> None:
    record = logging.makeLogRecord({"name": "diagnostics", "msg": text, "fields": {"who": text}})
    line = form.format(record)
    assert line.isprintable()
    if isinstance(form, JsonLine):
        assert json.loads(line)["who"] == text
