from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from diagnostics.errors import CollectError, UsageError
from diagnostics.wire.records import BodyKind, Scrape
from tests.benchmark.deployment import Deployment, StageSpec
from tests.prediction.backlog import Backlog
from tests.prediction.disturbance import MOST_LATE_IN_BURST_SECONDS, Machine
from tests.prediction.folder import Folder
from tests.prediction.keeping import thinned
from tests.prediction.measured import Interval, Measured, bootstrap, percentile
from tests.prediction.observing import of_cards, visible_cards
from tests.prediction.plan import Job, Load
from tests.prediction.reading import Bodies, read
from tests.prediction.readme import ENGINES, STAGES, block_lines, write_block
from tests.prediction.running import card_shares, shares

QUIET = Machine(busy_share=0.3, steal_share=0.0, throttled_seconds=0.0, late_seconds=0.0)
BASE = Deployment(ensemble="chat", stages=(StageSpec(name="safety", base_ms=10.0, instances=2),))
START = 1_700_000_000.0


def a_job(name: str, server: str = "a", rank: int = 1, cards: int = 0) -> Job:
    return Job(name=name, server=server, deployment=BASE, load=Load(rate=1.0), seed=1, rank=rank, cards=cards)


def measured(name: str, disturbed: str = "") -> Measured:
    number = Interval(value=1.0, low=0.9, high=1.1)
    return Measured(
        name=name,
        began=5.0,
        seconds=40.0,
        mean=number,
        p95=number,
        throughput=10.0,
        failed=0.0,
        stages=(),
        load_seconds=46.0,
        machine=QUIET,
        disturbed=disturbed,
    )


def statistics(count: int, at: float) -> Scrape:
    """Return a read after `count` requests, of which each batch held two: 6 ms of queue, 10 ms of execution."""

    def timed(times: int, milliseconds: float) -> dict[str, int]:
        return {"count": times, "ns": round(times * milliseconds * 1e6)}

    batch = {"batch_size": 2, "compute_input": timed(count // 2, 0.5), "compute_infer": timed(count // 2, 9.0)}
    batch["compute_output"] = timed(count // 2, 0.5)
    stage: dict[str, Any] = {"name": "safety", "version": "1", "inference_count": count}
    stage |= {"execution_count": count // 2, "batch_stats": [batch], "inference_stats": {"queue": timed(count, 6.0)}}
    entry = {"name": "chat", "version": "1", "inference_stats": {"success": timed(count, 20.0)}}
    body = json.dumps({"model_stats": [stage, entry]}).encode()
    return Scrape(server="s", kind=BodyKind.STATISTICS, at=at, mono=at, body=body)


def span(trace: int, name: str, start: float, end: float, parent: str = "") -> dict[str, Any]:
    attribute = {"key": "triton.model_name", "value": {"stringValue": name}}
    identity = f"{trace:08x}{name.encode().hex()[:8]:0>8}"
    made = {"traceId": f"{trace:032x}", "spanId": identity, "parentSpanId": parent, "name": name, "kind": 2}
    times = {"startTimeUnixNano": str(round(start * 1e9)), "endTimeUnixNano": str(round(end * 1e9))}
    return {**made, **times, "attributes": [attribute], "events": []}


def exported(requests: list[list[dict[str, Any]]], at: float) -> Scrape:
    spans = [span for request in requests for span in request]
    body = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}
    return Scrape(server="", kind=BodyKind.TRACES, at=at, mono=at, body=json.dumps(body).encode())


def hundred_requests() -> list[list[dict[str, Any]]]:
    """Return the spans of the n-th of a hundred requests in 10 s, which takes n milliseconds in ensemble and stage."""
    return [request(n) for n in range(1, 100)]


def request(n: int) -> list[dict[str, Any]]:
    begun = START + n / 10
    entry = span(n, "chat", begun, begun + n / 1e3)
    return [entry, span(n, "safety", begun, begun + n / 1e3, entry["spanId"])]


def test_a_measurement_is_what_counters_and_traces_say_between_two_reads() -> None:
    bodies = Bodies(
        started=START - 5.0,
        scrapes=[statistics(100, START), statistics(200, START + 10.0)],
        traces=[exported(hundred_requests(), START + 11.0)],
        rows=[(6.0, 0.0, 0.02, 200), (7.0, 0.0, 0.02, 503)],
    )
    found = read(a_job("a.b.1"), bodies, QUIET)
    stage = found.stages[0]

    assert found.mean.value == pytest.approx(0.020)
    assert found.p95.value == pytest.approx(0.095, rel=1e-3)
    assert (found.throughput, found.failed, found.began, found.load_seconds) == (10.0, 0.1, 5.0, 46.0)
    assert stage.queue_mean == pytest.approx(0.006)
    assert stage.batch_size_mean == 2.0
    assert stage.busy_share == pytest.approx(50 * 0.010 / (10.0 * 2))
    assert not found.disturbed


def test_a_measurement_of_which_traces_are_missing_is_no_measurement() -> None:
    some = exported(hundred_requests()[:50], START + 11.0)
    scrapes = [statistics(100, START), statistics(200, START + 10.0)]
    found = read(a_job("a.b.1"), Bodies(started=START, scrapes=scrapes, traces=[some], rows=[]), QUIET)

    assert found.disturbed == "50 of 100 requests were traced"
    with pytest.raises(CollectError, match="not read twice"):
        read(a_job("a.b.1"), Bodies(started=START, scrapes=scrapes[:1], traces=[some], rows=[]), QUIET)


def test_where_one_of_five_requests_is_traced_a_fifth_of_them_is_enough() -> None:
    scrapes = [statistics(100, START), statistics(200, START + 10.0)]
    traces = [exported(hundred_requests()[::5], START + 11.0)]
    bodies = Bodies(started=START, scrapes=scrapes, traces=traces, rows=[])

    assert not read(replace(a_job("a.b.1"), trace_rate=5), bodies, QUIET).disturbed
    assert read(replace(a_job("a.b.1"), trace_rate=2), bodies, QUIET).disturbed == "20 of 100 requests were traced"


def test_a_refused_request_is_in_no_latency() -> None:
    refused = [[span(n, "chat", START + n / 10, START + n / 10 + 5.0)] for n in range(101, 120)]
    traces = [exported([*hundred_requests(), *refused], START + 11.0)]
    scrapes = [statistics(100, START), statistics(200, START + 10.0)]
    found = read(a_job("a.b.1"), Bodies(started=START, scrapes=scrapes, traces=traces, rows=[]), QUIET)

    assert found.p95.value == pytest.approx(0.095, rel=1e-3)
    assert not found.disturbed


def test_the_machine_says_what_disturbed() -> None:
    assert not QUIET.disturbance()
    busy = Machine(busy_share=0.9, steal_share=0.02, throttled_seconds=0.5, late_seconds=0.1)
    assert not replace(QUIET, late_seconds=0.003).disturbance(MOST_LATE_IN_BURST_SECONDS)
    assert all(word in busy.disturbance() for word in ("stolen", "90% busy", "quota", "100.0 ms late"))


def test_a_capture_keeps_the_spans_of_every_tenth_trace_that_began_after_the_first_read() -> None:
    every = hundred_requests()
    kept = thinned([exported(every[:50], START + 6.0), exported(every[50:], START + 11.0)], START + 5.05)
    bodies = [json.loads(scrape.body or b"") for scrape in kept]
    spans = [one for body in bodies for one in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    starts = [round((int(one["startTimeUnixNano"]) / 1e9 - START) * 10) for one in spans]

    assert starts == [n for n in (51, 61, 71, 81, 91) for _ in range(2)]
    assert spans[0]["spanId"] == spans[1]["parentSpanId"]
    assert len({one["traceId"] for one in spans}) == 5
    assert len(kept) == 1


def test_percentiles_are_order_statistics() -> None:
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([3.0], 0.95) == 3.0


def test_the_bootstrap_draws_blocks_of_time_so_that_slow_spells_widen_it() -> None:
    steady = [(n / 100, float(n % 2)) for n in range(4000)]
    spells = [(n / 100, float(n // 400 % 2)) for n in range(4000)]
    narrow, wide = bootstrap(steady, fmean), bootstrap(spells, fmean)

    assert narrow.value == wide.value == 0.5
    assert narrow.high - narrow.low < 0.01 < 0.2 < wide.high - wide.low


def test_the_backlog_keeps_a_server_while_it_has_work_of_the_lowest_rank() -> None:
    backlog = Backlog([a_job("a1"), a_job("b1", "b"), a_job("b1x", "b"), a_job("a2", rank=2)])

    assert [job.name for job in iter(lambda: backlog.take("a", cards=0), None)] == ["a1", "b1", "b1x", "a2"]


def test_the_backlog_gives_what_computes_on_cards_to_a_worker_that_has_as_many() -> None:
    backlog = Backlog([a_job("both", "g", cards=2), a_job("one", "g", cards=1)])

    assert backlog.take("g", cards=0) is None
    assert backlog.left() == ["both", "one"]
    assert [job.name for job in iter(lambda: backlog.take("", cards=1), None)] == ["one"]
    assert backlog.take("", cards=2) is not None


def test_the_backlog_gives_a_job_twice_at_most_and_none_that_would_not_be_over_in_time() -> None:
    now = [0.0]
    job = a_job("a")
    backlog = Backlog([job], seconds=100.0, clock=lambda: now[0])

    assert backlog.take("a", cards=0) == job
    assert backlog.again(job)
    assert backlog.take("a", cards=0) is not None
    assert not backlog.again(job)
    late = Backlog([job], seconds=100.0, clock=lambda: now[0])
    now[0] = 60.0
    assert late.take("a", cards=0) is None


def test_processors_are_shared_out_evenly_and_no_worker_goes_without() -> None:
    assert shares([0, 1, 2, 3, 4], 2) == [[0, 1], [2, 3]]
    with pytest.raises(UsageError, match="too few"):
        shares([0], 2)


def test_cards_are_shared_out_evenly_and_the_first_workers_get_those_that_there_are() -> None:
    assert card_shares((0, 1), 1) == [(0, 1)]
    assert card_shares((0, 1), 2) == [(0,), (1,)]
    assert card_shares((0, 1), 3) == [(0,), (1,), ()]
    assert card_shares((), 2) == [(), ()]


def test_a_sample_of_the_machines_cards_keeps_those_that_the_server_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"gpus": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "b"}]}).encode()
    sample = Scrape(server="", kind=BodyKind.NVML, at=START, mono=START, body=body)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert of_cards(sample, visible_cards()) == sample

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert json.loads(of_cards(sample, visible_cards()).body or b"")["gpus"] == [{"index": 0, "uuid": "b"}]
    assert of_cards(statistics(1, START), visible_cards()) == statistics(1, START)


def test_a_folder_packs_into_one_that_reads_the_same(tmp_path: Path) -> None:
    folder, packed = Folder(tmp_path / "run"), Folder(tmp_path / "packed")
    with pytest.raises(UsageError, match="no measurements"):
        folder.measured()
    folder.came_from({"cpu": "x"})
    folder.write(measured("a.b.1"))
    folder.write(measured("a.c.1", disturbed="noise"))
    folder.capture("a.b.1").parent.mkdir()
    folder.capture("a.b.1").write_bytes(b"capture")
    folder.pack(packed.path, ["a.b.1", "a.c.1"])

    assert packed.measured() == folder.measured()
    assert packed.machine() == {"cpu": "x"}
    assert [path.name for path in (packed.path / "captures").iterdir()] == ["a.b.1.tar.xz"]
    assert (folder.has("a.b.1"), folder.has("a.c.1")) == (True, False)
    folder.came_from({"cpu": "x", "gpu": "z"})
    folder.came_from({"cpu": "x"})
    assert folder.machine() == {"cpu": "x", "gpu": "z"}
    with pytest.raises(UsageError, match="another machine"):
        folder.came_from({"cpu": "y"})


@pytest.mark.parametrize("name", [STAGES, ENGINES])
def test_only_the_block_between_the_markers_is_written(tmp_path: Path, name: str) -> None:
    readme, begin, end = tmp_path / "README.md", f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    readme.write_text(f"before\n{begin}\nold\n{end}\nafter\n", "utf-8")
    write_block(readme, ["one", "two"], name)

    assert readme.read_text("utf-8") == f"before\n{begin}\none\ntwo\n{end}\nafter\n"
    assert block_lines(readme, name) == ["one", "two"]
    readme.write_text("no markers", "utf-8")
    with pytest.raises(UsageError, match="lacks the lines"):
        write_block(readme, [], name)
