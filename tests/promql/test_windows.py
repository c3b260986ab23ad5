"""The window that is rebuilt: how long it is, in how many queries it comes, and that it is the one that was scraped."""

from __future__ import annotations

import threading
from dataclasses import replace
from queue import Queue

import pytest

from diagnostics.cli.sources import WindowOptions
from diagnostics.errors import CollectError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUESTS
from diagnostics.window.window import STATISTICS, Window, WindowBuilder
from exporters.sources import prometheus_api, prometheus_samples
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus import FEWEST_SCRAPES, read_window
from exporters.sources.prometheus_api import Late, PrometheusApi, parse_prometheus
from tests.builders import SERVER, START, Alter, Stage, SyntheticTriton, model_config, only_between, restarted_at
from tests.promql.fake_prometheus import FakePrometheus
from tests.promql.stored import explained, stored

STAGE = Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))
TRITON = SyntheticTriton(models=(STAGE,), interval=15.0)
ON = Subject(server=SERVER, model="slow", version="1")


def rebuilt(fake: FakePrometheus, seconds: float | None = None, stated: list[str] | None = None) -> Window:
    reported = stated if stated is not None else []
    with fake.running():
        api = PrometheusApi(parse_prometheus(fake.url), SourceOptions())
        window = read_window(api, api.clock(), seconds, reported.append, configured=False)
    builder = WindowBuilder()
    for record in window.records:
        builder.add_parsed(record)
    reported += [f"{gap.what}: {gap.why}" for gap in window.blind_spots]
    return builder.build()


def test_readings_are_those_of_the_pages_themselves() -> None:
    scrapes = TRITON.scrapes(21)
    window = WindowEvidence(rebuilt(stored(scrapes, with_service=True), 310.0))
    for signal in (REQUESTS, QUEUE_SECONDS, INSTANCE_BUSY_SHARE):
        assert window.read(signal, ON).value == pytest.approx(TRITON.evidence(21).read(signal, ON).value, rel=1e-3)


def test_five_minutes_are_looked_at() -> None:
    stated = list[str]()
    window = rebuilt(stored(TRITON.scrapes(81), with_service=True), stated=stated)
    assert window.seconds == pytest.approx(300, abs=15)
    assert stated == []


def test_rare_scrapes_make_the_window_longer_and_that_is_stated() -> None:
    stated = list[str]()
    window = rebuilt(stored(replace(TRITON, interval=60.0).scrapes(60), with_service=True), stated=stated)
    assert len(window.servers[SERVER].snapshots) == FEWEST_SCRAPES
    assert stated == ["scrapes are 60 s apart: the last 20 minutes are looked at, not five"]


def test_a_length_that_is_requested_is_kept() -> None:
    stated = list[str]()
    window = rebuilt(stored(replace(TRITON, interval=60.0).scrapes(60), with_service=True), 120.0, stated)
    assert window.seconds == pytest.approx(120)
    assert stated == []


def test_a_moment_of_the_past_is_looked_at() -> None:
    fake = stored(TRITON.scrapes(200), with_service=True)
    explanation = explained(fake, WindowOptions(at=str(START + 1500), since=300.0))
    assert (explanation.window.start, explanation.window.end) == (START + 1200, START + 1500)


def test_a_span_without_samples_says_so() -> None:
    with pytest.raises(CollectError, match="holds nothing of a Triton in the 300 s before"):
        explained(stored(TRITON.scrapes(5), with_service=True), WindowOptions(at=str(START - 5000), since=300.0))


def test_queries_do_not_grow_with_servers() -> None:
    def queries(servers: int) -> list[str]:
        fake = FakePrometheus()
        for number in range(servers):
            fake.scrape_all(TRITON.scrapes(4), instance=f"triton-{number}:8002")
        window = rebuilt(fake, 60.0)
        assert len(window.servers) == servers
        return fake.queries

    assert len(queries(1)) == len(queries(40)) == 5


def test_servers_with_the_same_series_share_what_describes_them() -> None:
    fake = FakePrometheus()
    for number in range(3):
        fake.scrape_all(TRITON.scrapes(4), instance=f"triton-{number}:8002", pod=f"triton-{number}")
    layouts = {id(page[2].layout) for one in rebuilt(fake, 60.0).servers.values() for page in one.snapshots}
    assert len(layouts) == 1


def test_a_store_that_refuses_large_queries_is_requested_in_parts() -> None:
    scrapes = TRITON.scrapes(21)
    whole, small = stored(scrapes, with_service=True), stored(scrapes, with_service=True)
    small.most = 200
    stated = list[str]()
    pages, parts = rebuilt(whole).servers[SERVER], rebuilt(small, stated=stated).servers[SERVER]
    assert len(small.queries) > len(whole.queries)
    assert [at for at, _, _ in parts.snapshots] == [at for at, _, _ in pages.snapshots]
    assert [list(page.values) for _, _, page in parts.snapshots] == [
        list(page.values) for _, _, page in pages.snapshots
    ]
    assert stated == []


def test_a_store_that_refuses_many_servers_is_requested_some_of_them() -> None:
    fake = FakePrometheus()
    for number in range(4):
        fake.scrape_all(TRITON.scrapes(5), instance=f"triton-{number}:8002")
    fake.most = 150
    assert len(rebuilt(fake, 60.0).servers) == 4
    assert any("triton-3:8002" in query.replace("\\", "") for query in fake.queries)


def test_a_part_of_one_server_is_split_further() -> None:
    fake = stored(replace(TRITON, interval=1.0).scrapes(50), with_service=False)
    fake.most = 150
    assert len(rebuilt(fake, 60.0).servers[SERVER].snapshots) == 50


def test_a_store_that_goes_on_refusing_is_left_alone_and_that_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, stated = stored(TRITON.scrapes(21), with_service=True), list[str]()
    monkeypatch.setattr(prometheus_samples, "SILENT_SECONDS", 0.0)
    with fake.running():
        api = PrometheusApi(parse_prometheus(fake.url), SourceOptions(), patience=1.0, announce=stated.append)

        def refuse_until_the_time_is_over(_: str) -> tuple[int, bytes]:
            monkeypatch.setattr(PrometheusApi, "left", 0.0 if len(fake.queries) > 3 else 1.0)
            return 503, b'{"error": "overloaded"}'

        end = api.clock()
        fake.refuse = refuse_until_the_time_is_over
        with pytest.raises(CollectError, match=r"overloaded.*ask for less with --since"):
            read_window(api, end, None, stated.append, configured=False)
    assert len(fake.queries) == 4
    assert len(stated) == 1
    assert "overloaded" in stated[0]


def test_a_store_that_hangs_is_requested_once_and_what_was_requested_is_stated() -> None:
    fake, release = stored(TRITON.scrapes(21), with_service=True), threading.Event()
    fake.refuse = lambda query: (503, b"") if "nv_" in query and release.wait(10) else None
    stated = list[str]()
    with fake.running():
        api = PrometheusApi(parse_prometheus(fake.url), SourceOptions(timeout=0.1), announce=stated.append)
        with pytest.raises(Late, match=r"no answer within 0.1 s to \{__name__=~.*--timeout"):
            read_window(api, api.clock(), None, stated.append, configured=False)
        release.set()
    assert len(fake.queries) == 2
    assert stated == []


def test_what_came_before_a_store_hung_is_kept_and_the_rest_is_a_gap() -> None:
    fake = stored(TRITON.scrapes(21), with_service=True)
    fake.most = 200
    answered = fake.answer

    def hang_later(query: str, at: float) -> tuple[int, bytes]:
        return (504, b"") if at == fake.now and "150000ms" in query else answered(query, at)

    fake.answer = hang_later  # type: ignore[method-assign]
    stated = list[str]()
    assert rebuilt(fake, stated=stated).servers[SERVER].snapshots
    assert any("150 s up to" in text and "HTTP 504" in text for text in stated)


def test_what_is_waited_for_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "SILENT_SECONDS", 0.0)
    fake, stated = FakePrometheus(now=1.0), Queue[str]()
    captured = list[str]()
    fake.refuse = lambda _: captured.append(stated.get(timeout=10))
    with fake.running():
        PrometheusApi(parse_prometheus(fake.url), SourceOptions(), announce=stated.put).clock()
    assert captured == [f"waiting up to 30 s for {fake.url}: time()"]


def test_a_part_that_is_refused_is_a_gap_of_the_rest() -> None:
    fake = stored(TRITON.scrapes(21), with_service=True)
    fake.most = 200
    fake.broken = (START + 1.0, START + 2.0)
    stated = list[str]()
    window = rebuilt(fake, stated=stated)
    assert window.start > START
    assert any("too many samples" in text for text in stated)


def test_a_server_that_ended_is_stated() -> None:
    fake = FakePrometheus()
    fake.scrape_all(TRITON.scrapes(5), instance="old:8002")
    fake.scrape_all(TRITON.scrapes(21), instance="new:8002")
    stated = list[str]()
    assert set(rebuilt(fake, stated=stated).servers) == {"old:8002", "new:8002"}
    assert any(text.startswith("old:8002 after 1970-01-12T13:47:40Z: there are no samples") for text in stated)
    assert not any("new:8002 after" in text for text in stated)


@pytest.mark.parametrize("alter", [restarted_at(6), only_between("slow", 0, 6), only_between("slow", 4, 99)])
def test_resets_loads_and_unloads_count_as_on_the_pages_themselves(alter: Alter) -> None:
    other = Stage("steady", rate=10, execution=0.01)
    altered = replace(TRITON, models=(STAGE, other), alter=alter)
    window = WindowEvidence(rebuilt(stored(altered.scrapes(13), with_service=True)))
    expected = altered.evidence(13)
    assert window.read(REQUESTS, ON).value == pytest.approx(expected.read(REQUESTS, ON).value)
    counted = [evidence.window.servers[SERVER].tables[STATISTICS][("slow", "1")] for evidence in (window, expected)]
    batches = [table.delta(0.0, 2 * START).batches for table in counted]
    assert batches[0].keys() == batches[1].keys()
    for size, one in batches[0].items():
        assert one.executions == pytest.approx(batches[1][size].executions, rel=1e-3)
        assert one.seconds == pytest.approx(batches[1][size].seconds, rel=1e-3)


def test_what_the_service_read_later_than_it_was_scraped_is_dated_by_its_reads() -> None:
    fake = stored(TRITON.scrapes(21), with_service=True)
    late = [(labels, [(at + 7.0, value) for at, value in samples]) for labels, samples in fake.series.items()]
    for labels, samples in late:
        if dict(labels)["job"] == "diag":
            fake.series[labels] = samples
    reads = rebuilt(fake).servers[SERVER].reads["statistics"]
    assert {round((at - START) % 15.0, 3) for at, _ in reads} == {0.0}
