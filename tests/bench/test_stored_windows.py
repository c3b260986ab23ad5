"""What a window from a Prometheus costs, as multiples of reading the same pages from the servers in the same run."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Sequence

from diagnostics.window.from_samples import SamplePages, servers_of
from diagnostics.window.window import Window, WindowBuilder, window_of
from diagnostics.wire.prometheus_answer import parse_answer
from diagnostics.wire.records import BodyKind, Scrape
from tests.bench.conftest import Goals
from tests.builders import Stage, SyntheticTriton
from tests.promql.fake_prometheus import FakePrometheus

MODELS, SCRAPES, ROUNDS = 20, 20, 3


def _pages() -> list[Scrape]:
    models = tuple(Stage(f"m{number}", rate=10, execution=0.01) for number in range(MODELS))
    scrapes = SyntheticTriton(models=models, interval=15.0).scrapes(SCRAPES)
    return [one for one in scrapes if one.kind is BodyKind.METRICS]


def _of_servers(pages: Sequence[Scrape], servers: int) -> list[Scrape]:
    return [
        Scrape(server=f"triton-{number}:8002", kind=one.kind, at=one.at, mono=one.mono, body=one.body)
        for number in range(servers)
        for one in pages
    ]


def _answer(pages: Sequence[Scrape], servers: int) -> bytes:
    fake = FakePrometheus()
    fake.scrape_all(pages)
    result = [
        {"metric": dict(labels) | {"instance": f"triton-{number}:8002"}, "values": [[at, repr(v)] for at, v in samples]}
        for number in range(servers)
        for labels, samples in fake.series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def _rebuilt(body: bytes) -> Window:
    builder, pages = WindowBuilder(), SamplePages()
    for server in servers_of(parse_answer(body).series):
        for record in pages.of(server):
            builder.add_parsed(record)
    return builder.build()


def _seconds(work: Callable[[], object]) -> float:
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def test_a_window_from_a_store_costs_no_more_than_twice_what_the_pages_do(goals: Goals) -> None:
    pages, servers = _pages(), 10
    body, scrapes = _answer(pages, servers), _of_servers(pages, servers)
    stored, read = _seconds(lambda: _rebuilt(body)), _seconds(lambda: window_of(scrapes))
    print(f"a window of {servers} servers: {stored:.2f} s from a store, {read:.2f} s from pages, {stored / read:.2f}")
    goals.at_most("a window from a store, times from pages", stored / read, 2.0)


def test_four_times_the_servers_take_little_more_than_four_times_as_long(goals: Goals) -> None:
    few, many = (_answer(_pages(), servers) for servers in (10, 40))
    ratio = _seconds(lambda: _rebuilt(many)) / _seconds(lambda: _rebuilt(few))
    print(f"four times the servers: {ratio:.2f} times the time")
    goals.at_most("a window of four times the servers, times as long", ratio, 6.0)


def test_a_window_from_a_store_takes_no_more_than_half_again_the_memory(goals: Goals) -> None:
    pages, servers = _pages(), 10
    body, scrapes = _answer(pages, servers), _of_servers(pages, servers)
    stored, read = _peak(lambda: _rebuilt(body)), _peak(lambda: window_of(scrapes))
    print(f"a window of {servers} servers: {stored / 2**20:.1f} MiB from a store, {read / 2**20:.1f} MiB from pages")
    goals.at_most("memory of a window from a store, times from pages", stored / read, 1.5)


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
