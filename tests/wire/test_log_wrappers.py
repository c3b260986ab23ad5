from __future__ import annotations

import json

import pytest

from diagnostics.window.logs import parse_log

BARE = 'I1127 21:12:54.661855 8447 model_lifecycle.cc:472] "loading: safety:2"'
STAMP = "2024-11-27T21:12:54.700000001Z"
NEAR = 1732741974.0


@pytest.mark.parametrize(
    "wrapped",
    [
        f"triton-1  | {BARE}",
        f"\x1b[36mtriton-1  | \x1b[0m{BARE}",
        f"[pod/triton-0/server] {STAMP} {BARE}",
        f"{STAMP} {BARE}",
        f"{STAMP} stdout F {BARE}",
        f"{STAMP} stderr P {BARE[:30]}\n{STAMP} stderr F {BARE[30:]}",
        json.dumps({"textPayload": BARE, "timestamp": STAMP}),
        json.dumps({"jsonPayload": {"message": BARE}, "timestamp": STAMP}),
        json.dumps({"message": BARE, "timestamp": 1732741974700}),
        json.dumps({"log": BARE + "\n", "stream": "stderr", "time": STAMP}),
        json.dumps({"line": BARE}),
    ],
)
def test_a_wrapped_line_is_read_as_the_bare_one(wrapped: str) -> None:
    assert parse_log(wrapped.encode(), NEAR) == parse_log(BARE.encode(), NEAR) != ()


def test_the_wrapper_tells_the_year() -> None:
    (event,) = parse_log(f"{STAMP} {BARE}".encode(), NEAR + 2 * 365 * 86400)

    assert event.at == parse_log(BARE.encode(), NEAR)[0].at


@pytest.mark.parametrize("stamp", [1e300, float("nan"), 10**400, -1, "now", "2024-11-27T21:12:54", None, {}])
def test_a_time_that_is_none_is_passed_over(stamp: object) -> None:
    assert parse_log(json.dumps({"log": BARE, "time": stamp}).encode(), NEAR) == parse_log(BARE.encode(), NEAR)
