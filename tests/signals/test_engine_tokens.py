"""Iterations of an engine: their length, their prompts, and the latencies that histograms keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest

from diagnostics.signals.engine_iterations import (
    ENGINE_ITERATION_SECONDS,
    ENGINE_PREFILL_STALL,
    ENGINE_SECONDS,
)
from diagnostics.signals.signal import Missing
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Stage, SyntheticTriton, explained, model_config, view_of

Lines = Callable[[int], Iterable[str]]


def triton_view(lines: Lines, backend: str = "vllm") -> ModelView:
    stage = Stage("llm", rate=5, execution=0.001, config=model_config("llm", backend=backend))
    return view_of(SyntheticTriton(models=(stage,), extra_metrics=lines).window(), "llm")


def histogram(name: str, mean: float) -> Lines:
    def lines(read: int) -> Iterable[str]:
        yield f'{name}_sum{{model="llm",version="1"}} {(10 + read) * 40 * mean}'
        yield f'{name}_count{{model="llm",version="1"}} {(10 + read) * 40}'

    return lines


def test_the_latency_of_vllm_is_the_mean_over_the_window() -> None:
    assert ENGINE_SECONDS.read(triton_view(histogram("vllm:e2e_request_latency_seconds", 0.31))).value == pytest.approx(
        0.31
    )
    assert ENGINE_SECONDS.read(triton_view(lambda _: ())).missing is Missing.NOT_EXPORTED


def test_an_iteration_takes_the_time_between_reads_over_the_iterations_between_them() -> None:
    def lines(read: int) -> Iterable[str]:
        yield f'nv_trt_llm_general_metrics{{model="llm",version="1",general_type="iteration_counter"}} {read * 250}'
        yield 'nv_trt_llm_request_metrics{model="llm",version="1",request_type="scheduled"} 4'

    assert ENGINE_ITERATION_SECONDS.read(triton_view(lines)).value == pytest.approx(5 / 250)


def serve_page(read: int) -> bytes:
    done = (5 + read) * 100
    rows = {
        "e2e_request_latency_seconds_count": done,
        "e2e_request_latency_seconds_sum": done * 3.0,
        "request_queue_time_seconds_sum": done * 2.0,
        "request_inference_time_seconds_sum": done * 1.0,
        "num_requests_running": 4,
        "num_scheduled_requests": 4,
        "num_requests_waiting": 40,
        "max_batch_size_runtime": 4,
        "kv_cache_max_blocks": 900,
        "kv_cache_used_blocks": 30,
    }
    return "".join(
        f'trtllm_{name}{{model_name="m",engine_type="pt"}} {value}\n' for name, value in rows.items()
    ).encode()


def scrape(read: int, body: bytes) -> Scrape:
    when = START + 5.0 * read
    return Scrape(server=SERVER, kind=BodyKind.METRICS, at=when, mono=when, body=body)


def test_trtllm_serve_without_triton_is_diagnosed_from_its_own_page() -> None:
    window = window_of([scrape(read, serve_page(read)) for read in range(13)])
    view = view_of(window, "m", "")
    found = explained(window)

    assert REQUEST_RATE.read(view).value == pytest.approx(20)
    assert (REQUEST_SECONDS.read(view).value, QUEUE_SECONDS.read(view).value) == (pytest.approx(3), pytest.approx(2))
    assert [(one.check, one.subject.model) for one in found.actionable] == [("engine-batch-limit", "m")]
    assert found.actionable[0].impact.seconds_per_request == pytest.approx(2)


def iterations(read: int, prompt_seconds: float, count: int = 50) -> bytes:
    def one(number: int) -> dict[str, object]:
        mixed = number % 2 == 0
        return {
            "iter": 50 * read + number,
            "iterLatencyMS": 20.0 + (1e3 * prompt_seconds if mixed else 0.0),
            "numActiveRequests": 40,
            "inflightBatchingStats": {
                "numScheduledRequests": 40,
                "numContextRequests": int(mixed),
                "numGenRequests": 39,
                "numCtxTokens": 4000 * mixed,
            },
        }

    return json.dumps([one(number) for number in range(count)]).encode()


@pytest.mark.parametrize(
    ("prompt_seconds", "share", "actionable"), [(0.06, 0.6, ["prefill-interference"]), (0.001, 0.025, [])]
)
def test_prompts_that_lengthen_iterations_stall_what_runs(
    prompt_seconds: float, share: float, actionable: list[str]
) -> None:
    bodies = [
        body
        for read in range(13)
        for body in (scrape(read, serve_page(read)), scrape(read, iterations(read, prompt_seconds)))
    ]
    window = window_of(bodies)

    assert ENGINE_PREFILL_STALL.read(view_of(window, "m", "")).value == pytest.approx(share, rel=0.05)
    assert [one.check for one in explained(window).actionable] == actionable


@pytest.mark.parametrize(("count", "known"), [(58, False), (62, True)])
def test_thirty_iterations_of_either_kind_tell_what_prompts_add(count: int, known: bool) -> None:
    bodies = [*(scrape(read, serve_page(read)) for read in range(3)), scrape(1, iterations(1, 0.06, count))]
    stall = ENGINE_PREFILL_STALL.read(view_of(window_of(bodies), "m", ""))

    assert (stall.value is not None) is known
