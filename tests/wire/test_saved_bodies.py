"""What a saved file is, from its content alone."""

from __future__ import annotations

import codecs
import gzip
import json
import time
from typing import Any

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire.perf_analyzer import parse_perf_analyzer
from diagnostics.wire.records import BodyKind
from diagnostics.wire.saved import Other, at_start, bare, recognised, whole_answer, whole_page
from diagnostics.wire.server import parse_statistics

PAGE = b"""# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 12
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="m",version="1"} 3
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us_count{model="m",version="1"} 12
nv_inference_request_summary_us{model="m",version="1",quantile="0.5"} 1000
"""
STATISTICS: dict[str, Any] = {
    "model_stats": [
        {"name": "m", "version": "1", "inference_count": 3, "inference_stats": {"success": {"count": 3, "ns": 9}}}
    ]
}
TABLE = b"""*** Measurement Settings ***
  Batch size: 2
Request concurrency: 1
  Client:
    Request count: 100
    Throughput: 20 infer/sec
    Avg latency: 9000 usec (standard deviation 21 usec)
Request concurrency: 4
  Client:
    Request count: 600
    Throughput: 120 infer/sec
    Avg latency: 13000 usec (standard deviation 2100 usec)
    p99 latency: 20000 usec
    Avg HTTP time: 12900 usec (send/recv 60 usec + response wait 12840 usec)
  Server:
    Inference count: 1200
    Execution count: 600
    Successful request count: 600
    Avg request latency: 12000 usec (overhead 50 usec + queue 9000 usec + compute input 20 usec + compute infer 2900 usec + compute output 30 usec)

Inferences/Second vs. Client Average Batch Latency
Concurrency: 4, throughput: 120 infer/sec, latency 13000 usec
"""  # noqa: E501
CURL_VERBOSE = b"""*   Trying 10.0.0.7:8002...
* Connected to triton (10.0.0.7) port 8002 (#0)
> GET /metrics HTTP/1.1
> Host: triton:8002
>
< HTTP/1.1 200 OK
< Content-Type: text/plain; charset=utf-8
<
{ [9 bytes data]
"""
CURL_METER = b"""  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current
                                 Dload  Upload   Total   Spent    Left  Speed
\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0\r100    9  100     9 --:--:-- 9
"""
CSV = b"""Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p99 latency
4,300,30,300,9600,20,3100,30,2,12700,20000
"""  # noqa: E501


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PAGE, BodyKind.METRICS),
        (b'vllm:num_requests_running{model="m",version="1"} 1\n', BodyKind.METRICS),
        (b'[{"iter": 3, "numActiveRequests": 1}]', BodyKind.METRICS),
        (b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 3\n', BodyKind.DCGM),
        (json.dumps(STATISTICS).encode(), BodyKind.STATISTICS),
        (json.dumps(STATISTICS, indent=4).encode(), BodyKind.STATISTICS),
        (b'{"modelStats": []}', BodyKind.STATISTICS),
        (b'[{"name": "m", "version": "1", "state": "READY"}]', BodyKind.INDEX),
        (b'{"models": [{"name": "m"}]}', BodyKind.INDEX),
        (b'{"name": "m", "platform": "", "max_batch_size": 8}', BodyKind.CONFIG),
        (b'{"name": "m", "maxBatchSize": 8}', BodyKind.CONFIG),
        (b'{"name": "triton", "version": "2.51.0", "extensions": []}', BodyKind.SERVER),
        (b'{"name": "m", "versions": ["1"], "platform": "python", "inputs": []}', Other.MODEL_METADATA),
        (b'{"t": 1.0, "gpus": []}', BodyKind.NVML),
        (b'{"resourceSpans": []}', BodyKind.TRACES),
        (b'{"t": 1.0, "ms": 3, "model": "m"}\n{"t": 2.0, "ms": 3, "model": "m"}\n', BodyKind.CLIENT),
        (b'name: "m"\nbackend: "python"\nmax_batch_size: 8\n', BodyKind.REPOSITORY),
        (b'I1128 03:10:00.123456 1 model_lifecycle.cc:472] "loading: m:2"\n', BodyKind.LOG),
        (b'triton-1  | I1128 03:10:00.123456 1 model_lifecycle.cc:472] "loading: m:2"\n', BodyKind.LOG),
        (TABLE, Other.PERF_ANALYZER),
        (CSV, Other.PERF_ANALYZER),
    ],
)
def test_a_body_is_known_by_its_content(body: bytes, kind: object) -> None:
    assert recognised(body) == kind


@pytest.mark.parametrize(
    ("body", "stated"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"hello\n", "not recognised"),
        (b'# Models\n\nThey are set up as follows:\n\n    name: "safety"\n    max_batch_size: 8\n', "not recognised"),
        (b"<html><body>login</body></html>", "not recognised"),
        (b"go_goroutines 12\n", "an unknown program"),
        (b'{"error": "not found"}', "an error that a server answered"),
        (b"[" * 100_000, "not recognised"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not recognised"),
        (bytes(range(256)) * 10, "not recognised"),
    ],
)
def test_what_is_nothing_of_the_kind_is_refused(body: bytes, stated: str) -> None:
    with pytest.raises(MalformedBody, match=stated):
        recognised(body)


def test_what_a_small_file_unpacks_to_is_bounded() -> None:
    with pytest.raises(MalformedBody, match="unpacks to more than"):
        bare(gzip.compress(bytes(2**22)), 2**20)


@pytest.mark.parametrize("line", [b"* a\n", b"HTTP/1.1 200 a\n", b"\r" * 100, b"> \n", b"a" * 100])
def test_lines_around_a_body_are_cut_off_in_time_that_grows_with_them(line: bytes) -> None:
    begun = time.process_time()
    bare(line * 100_000 + b"x\n* y")

    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("part", [STATISTICS["model_stats"], STATISTICS["model_stats"][0]], ids=["rows", "a row"])
def test_statistics_that_were_cut_out_of_their_answer_are_statistics(part: object) -> None:
    body = json.dumps(part).encode()

    assert recognised(body) is BodyKind.STATISTICS
    assert [row.name for row in parse_statistics(whole_answer(body))] == [STATISTICS["model_stats"][0]["name"]]


@pytest.mark.parametrize(
    "saved",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n" + PAGE,
        b"HTTP/1.1 301 Moved\r\nLocation: /metrics/\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n" + PAGE,
        gzip.compress(PAGE),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(PAGE),
        CURL_VERBOSE + PAGE + b"* Connection #0 to host triton left intact\n",
        CURL_METER + PAGE,
        codecs.BOM_UTF8 + PAGE,
        codecs.BOM_UTF16_LE + PAGE.decode().encode("utf-16-le"),
    ],
)
def test_headers_and_byte_order_marks_are_cut_off(saved: bytes) -> None:
    assert bare(saved) == PAGE


def test_a_page_that_was_cut_keeps_its_whole_lines() -> None:
    assert (
        whole_page(PAGE[: PAGE.rindex(b'quantile="0.5"')]) == PAGE[: PAGE.rindex(b"nv_inference_request_summary_us{")]
    )
    assert whole_page(PAGE) == PAGE


def test_a_server_that_counted_nothing_has_its_counters_at_zero_and_its_gauges_as_they_are() -> None:
    lines = at_start(BodyKind.METRICS, PAGE).decode().splitlines()

    assert 'nv_inference_request_success{model="m",version="1"} 0' in lines
    assert 'nv_inference_request_summary_us_count{model="m",version="1"} 0' in lines
    assert 'nv_inference_pending_request_count{model="m",version="1"} 3' in lines
    assert parse_statistics(at_start(BodyKind.STATISTICS, json.dumps(STATISTICS).encode()))[0].success.count == 0


def test_a_table_has_a_load_per_concurrency_with_its_length_and_counters() -> None:
    one, four = parse_perf_analyzer(TABLE)

    assert one.counters == {}
    assert (four.load, four.seconds, four.client_seconds) == ("concurrency 4", pytest.approx(10), pytest.approx(0.013))
    row = four.counters["", ""]
    assert row["nv_inference_request_success"] == 600
    assert row["nv_inference_queue_duration_us"] == 600 * 9000
    assert b'nv_inference_exec_count{model="m",version="1"} 600' in four.page("m", start=False)


def test_a_row_of_a_csv_has_no_counts_of_executions() -> None:
    (load,) = parse_perf_analyzer(CSV)

    assert load.requests / load.seconds == pytest.approx(300)
    assert "nv_inference_exec_count" not in load.counters["", ""]


def test_output_without_a_finished_measurement_is_refused() -> None:
    with pytest.raises(MalformedBody, match="without a finished measurement"):
        parse_perf_analyzer(b"Request concurrency: 1\nFailed to obtain stable measurement\n")
