from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window.logs import LONGEST_REASON, LogKind, parse_log

NEAR = datetime(2026, 11, 27, 21, 12, tzinfo=UTC).timestamp()
LOAD = (
    b'I1127 21:12:54.661855 8447 model_lifecycle.cc:472] "loading: safety:2"\n'
    b"+-------------+---------+--------+\n"
    b"I1127 21:12:56.249998 8447 model_lifecycle.cc:839] \"successfully loaded 'safety'\"\n"
    b"E1127 21:12:57.000000 8447 model_lifecycle.cc:642] \"failed to load 'llm' version 3: Internal: no such engine\"\n"
    b"I1127 21:13:00.916605 8447 model_lifecycle.cc:624] \"successfully unloaded 'safety' version 1\"\n"
)


def test_loads_failures_and_unloads_are_read_with_their_times() -> None:
    events = parse_log(LOAD, NEAR)

    assert [(e.kind, e.model, e.version) for e in events] == [
        (LogKind.LOADING, "safety", "2"),
        (LogKind.LOADED, "safety", ""),
        (LogKind.FAILED, "llm", "3"),
        (LogKind.UNLOADED, "safety", "1"),
    ]
    assert events[0].at == datetime(2026, 11, 27, 21, 12, 54, 661855, tzinfo=UTC).timestamp()
    assert events[2].reason == "Internal: no such engine"


def test_older_servers_quote_nothing() -> None:
    (event,) = parse_log(b"I1127 21:12:54.661855 8447 model_lifecycle.cc:472] loading: safety:2", NEAR)

    assert event.kind is LogKind.LOADING


def test_iso_times_are_read() -> None:
    (event,) = parse_log(b'2026-11-27T21:12:54Z 8447 model_lifecycle.cc:472] "loading: safety:2"', NEAR)

    assert event.at == datetime(2026, 11, 27, 21, 12, 54, tzinfo=UTC).timestamp()


def test_a_log_around_new_year_gets_the_year_that_is_near() -> None:
    near = datetime(2027, 1, 1, 0, 5, tzinfo=UTC).timestamp()
    (event,) = parse_log(b'I1231 23:59:00.000000 1 a.cc:1] "loading: m:1"', near)

    assert datetime.fromtimestamp(event.at, UTC).year == 2026


def test_a_day_that_does_not_exist_is_passed_over() -> None:
    assert parse_log(b'I0230 23:59:00.000000 1 a.cc:1] "loading: m:1"', NEAR) == ()


def test_a_reason_is_cut() -> None:
    line = b"E1127 21:12:57.0 8447 a.cc:1] \"failed to load 'm' version 1: " + b"x" * 100_000 + b'"'

    assert len(parse_log(line, NEAR)[0].reason) == LONGEST_REASON


@given(body=st.binary(max_size=400), near=st.floats(0, 4e9))
def test_any_bytes_are_read_without_fault(body: bytes, near: float) -> None:
    assert isinstance(parse_log(body, near), tuple)


def test_an_offset_of_its_own_counts() -> None:
    body = b'2026-11-27T23:00:00+02:00 1 model_lifecycle.cc:472] "loading: chat:1"\n'

    assert parse_log(body, 0.0)[0].at == 1795813200.0


@pytest.mark.parametrize(("offset", "zoned"), [("Z", True), ("+02:00", True), ("", False)])
def test_times_that_somebody_rewrote_without_an_offset_are_reported(offset: str, zoned: bool) -> None:
    (event,) = parse_log(f'2026-11-27T21:12:54{offset} I 8447 model_lifecycle.cc:472] "loading: m:2"'.encode(), NEAR)

    assert event.zoned is zoned
