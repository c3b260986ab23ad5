"""`trtllm-serve` over real HTTP: its page, its list of iterations that each reader empties, and what comes of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler

import pytest
from fake_triton import FakeServer, page, status

from diagnostics.cli.main import main
from diagnostics.diagnosis.explanation import Explanation, WindowFacts, explain
from diagnostics.errors import CollectError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import window_of
from diagnostics.wire.anonymize import Anonymizer
from diagnostics.wire.records import Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover

PAGE_ONLY = SourceOptions(timeout=2.0)
WITH_LIST = replace(PAGE_ONLY, iterations=True)
ITERATIONS_A_SECOND = 50
REQUESTS_A_SECOND = 40.0


@dataclass
class Engine:
    """An engine with `slots` slots, all taken, and `waiting` requests behind them; a second passes per page read."""

    slots: int = 8
    waiting: int = 60
    seconds: int = 0
    reported: int = 0
    untold: list[int] = field(default_factory=list)

    def pass_a_second(self) -> None:
        self.seconds += 1
        self.untold += range(self.reported, self.reported + ITERATIONS_A_SECOND)
        self.reported += ITERATIONS_A_SECOND

    def page(self, handler: BaseHTTPRequestHandler) -> None:
        """What prometheus_client writes for the collector of the PyTorch backend, without gauges of iterations."""
        self.pass_a_second()
        done = REQUESTS_A_SECOND * (10 + self.seconds)
        waited, worked = self.waiting / REQUESTS_A_SECOND, self.slots / REQUESTS_A_SECOND
        sums = {"e2e_request_latency": waited + worked, "request_queue_time": waited, "request_inference_time": worked}
        labels = '{engine_type="pytorch",model_name="meta/llama"}'
        lines = [f'trtllm_request_success_total{{finished_reason="length",{labels[1:-1]}}} {done}']
        for name, mean in sums.items():
            family = f"trtllm_{name}_seconds"
            lines += [f"# TYPE {family} histogram", f'{family}_bucket{{le="+Inf",{labels[1:-1]}}} {done}']
            lines += [f"{family}_count{labels} {done}", f"{family}_sum{labels} {done * mean}"]
        page("\n".join([*lines, ""]).encode(), "text/plain; version=0.0.4")(handler)

    def drain(self, handler: BaseHTTPRequestHandler) -> None:
        taken, self.untold = self.untold, []
        page(json.dumps([self.iteration(number) for number in taken]).encode(), "application/json")(handler)

    def iteration(self, number: int) -> dict[str, object]:
        """One entry as the executor's serializer writes it; the PyTorch backend leaves the run-time limits at zero."""
        return {
            "timestamp": "11-28-2026 02:14:07.102931",
            "iter": number,
            "iterLatencyMS": 1000 / ITERATIONS_A_SECOND,
            "newActiveRequestsQueueLatencyMS": 0.02,
            "numNewActiveRequests": 0,
            "numActiveRequests": self.slots,
            "numQueuedRequests": self.waiting,
            "numCompletedRequests": 0,
            "maxNumActiveRequests": self.slots,
            "maxBatchSizeStatic": 0,
            "maxBatchSizeRuntime": 0,
            "maxNumTokensRuntime": 0,
            "gpuMemUsage": 56401920000,
            "kvCacheStats": {
                "maxNumBlocks": 5358,
                "freeNumBlocks": 5350 - self.slots,
                "usedNumBlocks": 8 + self.slots,
                "tokensPerBlock": 32,
                "allocTotalBlocks": 1632,
                "reusedBlocks": 0,
                "cacheHitRate": 0.0,
            },
            "inflightBatchingStats": {
                "numScheduledRequests": self.slots,
                "numContextRequests": 0,
                "numGenRequests": self.slots,
                "numPausedRequests": 0,
                "numCtxTokens": 0,
                "microBatchId": 0,
                "avgNumDecodedTokensPerIter": 1.0,
            },
        }

    @contextmanager
    def serving(self, *, with_page: bool = True) -> Iterator[FakeServer]:
        routes = {"GET /metrics": self.drain, "GET /prometheus/metrics": self.page if with_page else status(404)}
        with FakeServer(routes).running() as server:
            yield server


def rounds(engine: Engine, options: SourceOptions, path: str = "/prometheus/metrics", count: int = 20) -> list[Scrape]:
    """Return what so many rounds read, each as if a second after the one before."""
    with engine.serving() as server:
        source = discover(server.url + path, options)
        read = [replace(one, at=1e9 + n, mono=1e9 + n) for n in range(count) for one in source.round()]
        assert {one.server for one in read} == {f"127.0.0.1:{server.port}"}
    return read


def explained(scrapes: list[Scrape]) -> Explanation:
    window = window_of(scrapes)
    return explain(WindowEvidence(window), WindowFacts(start=window.start, end=window.end, sources=("llm",)))


def test_the_list_is_left_to_others_unless_it_is_requested() -> None:
    engine = Engine()
    rounds(engine, PAGE_ONLY, count=3)

    assert len(engine.untold) == engine.reported


def test_each_iteration_is_read_once() -> None:
    engine = Engine()
    found = window_of(rounds(engine, WITH_LIST, count=5))
    (server,) = found.servers.values()
    numbers = [sample.iterations for sample in server.iterations]

    assert len(numbers) == len(set(numbers)) > 4 * ITERATIONS_A_SECOND
    assert engine.reported - len(engine.untold) == len(numbers)


def test_iterations_say_which_limit_holds_requests_back() -> None:
    reported = explained(rounds(Engine(), WITH_LIST))

    assert [finding.check for finding in reported.actionable] == ["engine-batch-limit"]
    assert reported.actionable[0].impact.share_of_latency > 0.7
    assert "--max_batch_size 32 (in its YAML options: max_batch_size: 32)" in str(reported.actionable[0].suggestion)
    assert "instance_group" not in str(reported.actionable[0].suggestion)
    assert reported.verdict == "degraded"


def test_the_page_alone_names_no_limit() -> None:
    reported = explained(rounds(Engine(), PAGE_ONLY))

    assert reported.actionable == ()
    assert "engine-batch-limit" in {result.check.id for result, _ in reported.unknown}


def test_an_engine_that_is_seldom_at_work_is_judged_by_the_whole_time() -> None:
    engine = Engine(waiting=2)
    read = rounds(engine, WITH_LIST)
    # The same iterations in ten times as long: requests wait in a tenth of the time.
    slow = [replace(one, at=1e9 + (one.at - 1e9) * 10, mono=1e9 + (one.mono - 1e9) * 10) for one in read]

    assert explained(slow).actionable == ()


def test_the_port_alone_leads_to_the_page() -> None:
    with Engine().serving() as server:
        found = discover(f"127.0.0.1:{server.port}", PAGE_ONLY)

    assert found.urls == (f"http://127.0.0.1:{server.port}/prometheus/metrics",)


def test_a_server_that_only_lists_iterations_is_reported_what_to_switch_on() -> None:
    with Engine().serving(with_page=False) as server, pytest.raises(CollectError, match="return_perf_metrics: true"):
        discover(f"127.0.0.1:{server.port}", PAGE_ONLY)


def test_the_command_says_what_reading_the_list_takes_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())

    assert "--engine-iterations" in shown
    assert "gone for other collectors" in shown


def test_an_anonymized_recording_explains_as_much() -> None:
    hidden = Anonymizer(b"seed")
    reported = explained([hidden.apply(one) for one in rounds(Engine(), WITH_LIST)])

    assert [finding.check for finding in reported.actionable] == ["engine-batch-limit"]
    assert reported.actionable[0].subject.model != "meta/llama"


def test_a_list_that_turns_into_something_else_is_a_failed_read() -> None:
    engine = Engine()
    with engine.serving() as server:
        source = discover(server.url + "/prometheus/metrics", WITH_LIST)
        server.routes["GET /metrics"] = page(b"<html>", "text/html")
        page_read, list_read = source.round()

    assert page_read.error is None
    assert list_read.error == "not a list of iterations"
