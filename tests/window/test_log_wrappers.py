from __future__ import annotations

import json

import pytest

from diagnostics.window.logs import LogKind, options_of, parse_log
from diagnostics.wire.anonymize import anonymize_log
from diagnostics.wire.anonymize_rules import Pseudonyms
from diagnostics.wire.records import BodyKind
from diagnostics.wire.saved import recognised

BARE = 'I1127 21:12:54.661855 8447 model_lifecycle.cc:472] "loading: safety:2"'
STAMP = "2024-11-27T21:12:54.700000001Z"
NEAR = 1732741974.0


WRAPPED = [
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
]


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_wrapped_line_is_read_as_the_bare_one(wrapped: str) -> None:
    assert parse_log(wrapped.encode(), NEAR) == parse_log(BARE.encode(), NEAR) != ()


def test_the_wrapper_tells_the_year() -> None:
    (event,) = parse_log(f"{STAMP} {BARE}".encode(), NEAR + 2 * 365 * 86400)

    assert event.at == parse_log(BARE.encode(), NEAR)[0].at


@pytest.mark.parametrize("stamp", [1e300, float("nan"), 10**400, -1, "now", "2024-11-27T21:12:54", None, {}])
def test_a_time_that_is_none_is_passed_over(stamp: object) -> None:
    assert parse_log(json.dumps({"log": BARE, "time": stamp}).encode(), NEAR) == parse_log(BARE.encode(), NEAR)


@pytest.mark.parametrize("wrapped", [one for one in WRAPPED if "\n" not in one])
def test_a_wrapped_log_is_known_for_a_log(wrapped: str) -> None:
    assert recognised(wrapped.encode()) is BodyKind.LOG


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_wrapped_log_is_anonymized_as_a_bare_one_is(wrapped: str) -> None:
    assert b"safety" not in anonymize_log(wrapped.encode(), Pseudonyms(b"key"))
    assert b"loading: " in anonymize_log(wrapped.encode(), Pseudonyms(b"key"))


def test_a_time_without_an_offset_is_the_wrappers() -> None:
    rewritten = '2024-11-27T22:12:54.661855 8447 I model_lifecycle.cc:472] "loading: safety:2"'
    bare, wrapped = (parse_log(text.encode(), NEAR) for text in (rewritten, f"{STAMP} stdout F {rewritten}"))

    assert [event.zoned for event in (*bare, *wrapped)] == [False, True]
    assert wrapped[0].at == pytest.approx(parse_log(BARE.encode(), NEAR)[0].at, abs=0.1)


@pytest.mark.parametrize("prefix", ["", "triton-1  | ", f"{STAMP} stdout F "])
def test_the_table_of_options_is_read_through_a_wrapper(prefix: str) -> None:
    rows = ("| Option | Value |", "| model_control_mode | MODE_EXPLICIT |", "| rate_limit | EXEC_COUNT |", "+-----+")
    found = options_of("\n".join(prefix + row for row in rows).encode())

    assert found == {"model_control_mode": "MODE_EXPLICIT", "rate_limit": "EXEC_COUNT"}


def test_what_is_refused_before_it_has_a_version_is_a_load_that_failed() -> None:
    refused = [
        "Poll failed for model directory 'm': failed to read text proto from /models/m/config.pbtxt",
        "failed to load model 'm': at least one version must be available under the version policy of model 'm'",
        "failed to poll model 'm': model not found in any model repository.",
    ]
    lines = (f'E1127 21:12:54.661855 8447 model_repository_manager.cc:1460] "{text}"' for text in refused)
    events = parse_log("\n".join(lines).encode(), NEAR)

    assert [(event.kind, event.model, event.version) for event in events] == [(LogKind.FAILED, "m", "")] * 3
    assert [event.reason for event in events] == [text.partition(": ")[2] for text in refused]
