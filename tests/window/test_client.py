from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window import parsed
from diagnostics.window.parsed import parse_client
from diagnostics.window.window import window_of
from tests.builders_traffic import Did, sent, story_scrapes


def test_requests_are_read_in_order_of_sending_with_seconds() -> None:
    rows = [
        {"t": 2.0, "model": "chat", "ms": 120.5, "ok": False, "code": 503},
        {"t": 1.0, "model": "chat", "ms": 80},
    ]
    first, second = parse_client("\n".join(map(json.dumps, rows)).encode())

    assert (first.at, first.seconds, first.ok, first.code) == (1.0, 0.08, True, None)
    assert (second.at, second.seconds, second.ok, second.code) == (2.0, 0.1205, False, 503)


def test_a_cut_last_line_costs_one_request() -> None:
    body = b'{"t": 1, "model": "m", "ms": 5}\n{"t": 2, "mod'

    assert len(parse_client(body)) == 1


def test_a_window_holds_what_clients_saw() -> None:
    window = window_of([*story_scrapes({("m", "1"): [Did(requests=4)]}), sent([0.1, 0.2])])

    assert [request.model for request in window.clients] == ["m", "m"]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_fault(body: bytes) -> None:
    assert isinstance(parse_client(body), tuple)


KEYS = st.sampled_from(["t", "ms", "model", "ok", "code"])


@given(st.lists(st.dictionaries(KEYS, st.none() | st.text() | st.floats())))
def test_odd_values_never_become_a_request_that_is_not_finite(rows: list[dict[str, object]]) -> None:
    found = parse_client("\n".join(map(json.dumps, rows)).encode())

    assert all(abs(r.at) < float("inf") and 0 <= r.seconds < float("inf") for r in found)


@pytest.mark.parametrize(
    "line",
    [
        b'{"t": 1, "ms": 2, "model": "m"}',
        b'{"t": 1.5, "ms": -2, "model": "m", "ok": false, "code": 503, "more": [1, {}]}',
        b'{"t": 1, "t": 2, "ms": 2, "model": "m", "code": null}',
        b'{"t": "1.5", "ms": "2", "model": "m", "ok": null, "code": "200"}',
        b'{"t": 1, "ms": 2, "model": "\\ud800", "code": true}',
        b'{"t": 1, "ms": 2, "model": "\xff"}',
        b'{"t": 1e31, "ms": 2, "model": "m"}',
        b'{"t": 1, "ms": 1e400, "model": "m"}',
        b'{"t": 1, "ms": NaN, "model": "m"}',
        b'{"t": 1, "ms": 2, "model": 3}',
        b'{"t": 1, "ms": 2}',
        b'{"t": 1, "ms": 2, "mod',
        b"[1]",
        b"",
    ],
)
def test_a_usual_line_is_read_as_any_other_is(line: bytes) -> None:
    assert parsed._request(line) == parsed._unusual_request(line)
