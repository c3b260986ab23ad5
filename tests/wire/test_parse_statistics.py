from __future__ import annotations

import json

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire.server import BatchStatistics, ModelStatistics, Timed, parse_statistics

HTTP = {
    "model_stats": [
        {
            "name": "safety",
            "version": "1",
            "last_inference": 1795814437530,
            "inference_count": 150,
            "execution_count": 75,
            "inference_stats": {
                "success": {"count": 140, "ns": 51_000_000_000},
                "fail": {"count": 10, "ns": 2_000_000},
                "queue": {"count": 140, "ns": 413_922},
                "compute_input": {"count": 140, "ns": 1_000_000},
                "compute_infer": {"count": 140, "ns": 5_000_000_000},
                "compute_output": {"count": 140, "ns": 2_000_000},
                "cache_hit": {"count": 3, "ns": 1_000},
                "cache_miss": {"count": 4, "ns": 2_000},
            },
            "response_stats": {},
            "batch_stats": [
                {
                    "batch_size": 2,
                    "compute_input": {"count": 75, "ns": 500_000},
                    "compute_infer": {"count": 75, "ns": 2_500_000_000},
                    "compute_output": {"count": 75, "ns": 1_000_000},
                }
            ],
            "memory_usage": [],
        }
    ]
}
PARSED = ModelStatistics(
    name="safety",
    version="1",
    last_inference=1795814437530 * 1e-3,
    inference_count=150,
    execution_count=75,
    success=Timed(140, 51_000_000_000 * 1e-9),
    fail=Timed(10, 2_000_000 * 1e-9),
    queue=Timed(140, 413_922 * 1e-9),
    compute_input=Timed(140, 1_000_000 * 1e-9),
    compute_infer=Timed(140, 5_000_000_000 * 1e-9),
    compute_output=Timed(140, 2_000_000 * 1e-9),
    cache_hit=Timed(3, 1_000 * 1e-9),
    cache_miss=Timed(4, 2_000 * 1e-9),
    batches=(
        BatchStatistics(
            size=2,
            input=Timed(75, 500_000 * 1e-9),
            infer=Timed(75, 2_500_000_000 * 1e-9),
            output=Timed(75, 1_000_000 * 1e-9),
        ),
    ),
)


def as_grpc(value: object) -> object:
    """Return the JSON that protobuf writes for the same message: camelCase, 64-bit integers as strings."""
    if isinstance(value, dict):
        camel = {key.split("_")[0] + "".join(w.title() for w in key.split("_")[1:]): v for key, v in value.items()}
        return {key: as_grpc(item) for key, item in camel.items() if item not in (0, [], {})}
    if isinstance(value, list):
        return [as_grpc(item) for item in value]
    return str(value) if isinstance(value, int) else value


def test_statistics_become_counts_and_seconds():
    assert parse_statistics(json.dumps(HTTP).encode()) == (PARSED,)


def test_grpc_json_reads_the_same_as_http_json():
    assert parse_statistics(json.dumps(as_grpc(HTTP)).encode()) == parse_statistics(json.dumps(HTTP).encode())


def test_a_model_that_never_ran_has_no_last_inference_and_zero_counters():
    body = b'{"model_stats": [{"name": "m", "version": "2", "last_inference": 0}]}'

    assert parse_statistics(body) == (ModelStatistics(name="m", version="2"),)


def test_an_unsigned_underflow_survives_for_the_window_to_judge():
    body = b'{"model_stats":[{"name":"m","inference_stats":{"queue":{"count":1,"ns":18446744073709551000}}}]}'

    (model,) = parse_statistics(body)

    assert model.queue == Timed(1, pytest.approx(1.8446744073709551e10))


def test_no_models_is_an_answer_too():
    assert parse_statistics(b"{}") == ()
    assert parse_statistics(b'{"model_stats": null}') == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><body>Sign in</body></html>", "starts with '<html><body>Sign in"),
        (b"", "starts with ''"),
        (b'{"model_stats": [{"name": "m", "inf', "should be JSON"),
        (b'{"error": "unknown model"}', "answered with an error instead of the statistics: 'unknown model'"),
        (b"[]", "should be a JSON object"),
        (b'{"model_stats": [{"name": "m", "inference_count": "many"}]}', "'inference_count' should be an integer"),
        (b"[" * 100_000, "should be JSON"),
        (b"\xff\xfe\x00", "should be JSON"),
    ],
)
def test_what_is_no_statistics_is_refused_in_one_line(body, message):
    with pytest.raises(MalformedBody) as failure:
        parse_statistics(body)

    assert message in str(failure.value)
    assert "\n" not in str(failure.value)
