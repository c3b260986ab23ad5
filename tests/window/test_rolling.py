from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.render.explanation.json import report
from diagnostics.render.explanation.why_not import account
from diagnostics.window import rolling
from diagnostics.window.rolling import RecentSpans, RollingWindow
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, explained, model_config
from tests.builders_traces import Leg, call, ensemble_trace, export, trace_id

BUSY = Stage("slow", rate=38, execution=0.0245, queue=0.17, failing={"BACKEND": 2.0}, config=model_config("slow"))
SAFETY = (Leg(model="safety", queue=0.1, compute=0.02),)
TIMELESS = {BodyKind.CONFIG, BodyKind.SERVER, BodyKind.REPOSITORY}


def lived_through(scrapes: Sequence[Scrape], seconds: float = 300.0) -> RollingWindow:
    window = RollingWindow("chat", seconds, max_spans=10_000)
    for scrape in scrapes:
        window.add(scrape)
    return window


def stated(window: Window) -> str:
    explanation = explained(window)
    return json.dumps(report(explanation)) + account(explanation.results)


def moved(scrape: Scrape, by: float, server: str | None = None) -> Scrape:
    return replace(scrape, at=scrape.at + by, mono=scrape.mono + by, server=server or scrape.server)


@settings(max_examples=12)
@given(
    interval=st.sampled_from([5.0, 15.0, 60.0]),
    reads=st.integers(2, 40),
    lost=st.sets(st.integers(0, 39), max_size=6),
    restart=st.integers(1, 39),
    queue=st.floats(0.0, 0.5),
)
def test_the_window_lived_through_is_that_of_its_bodies(
    interval: float, reads: int, lost: set[int], restart: int, queue: float
):
    def alter(number, rows):
        return rows if number < restart else {key: replace(row, requests=number * 10.0) for key, row in rows.items()}

    triton = SyntheticTriton(models=(replace(BUSY, queue=queue),), interval=interval, alter=alter)
    scrapes = [
        replace(one, body=None, error="no answer") if round((one.at - START) / interval) in lost else one
        for one in triton.scrapes(reads)
    ]
    end = scrapes[-1].mono
    inside = [one for one in scrapes if one.mono >= end - 300.0 - rolling.SLACK or one.kind is BodyKind.CONFIG]
    assert stated(lived_through(scrapes).window()) == stated(window_of(inside))


def test_a_verdict_depends_on_nothing_that_has_left():
    before = SyntheticTriton(models=(Stage("gone", rate=90, queue=3.0, execution=0.5),), interval=15.0).scrapes(80)
    after = [moved(one, 2_000.0) for one in SyntheticTriton(models=(BUSY,), interval=15.0).scrapes(21)]
    fresh, old = lived_through(after).window(), lived_through([*before, *after]).window()
    assert stated(old) == stated(fresh)
    assert "gone" not in stated(old)


def test_a_configuration_is_known_until_it_is_read_anew():
    scrapes = SyntheticTriton(models=(BUSY,), interval=15.0).scrapes(100)
    assert [one.kind for one in scrapes].count(BodyKind.CONFIG) == 1, "it was read once, at the beginning"
    window = lived_through(scrapes).window()
    assert "slow" in window.servers["triton-0"].configs
    changed = replace(scrapes[0], at=scrapes[-1].at, mono=scrapes[-1].mono, body=b'{"name": "slow", "backend": "onnx"}')
    window = lived_through([*scrapes, changed]).window()
    assert window.servers["triton-0"].configs["slow"].backend == "onnx"


def test_servers_in_each_others_way_keep_their_own_order():
    one = SyntheticTriton(models=(BUSY,), interval=15.0).scrapes(60)
    other = [moved(scrape, 7.0, server="triton-1") for scrape in one]
    both = sorted([*one, *other], key=lambda scrape: scrape.mono)
    end = both[-1].mono
    inside = [s for s in both if s.mono >= end - 300.5 or s.kind is BodyKind.CONFIG]
    assert stated(lived_through(both).window()) == stated(window_of(inside))


def test_what_a_server_stated_is_forgotten_with_it():
    one = SyntheticTriton(models=(BUSY,), interval=15.0).scrapes(40)
    other = [moved(scrape, 1.0, server="triton-1") for scrape in one]
    window = lived_through(sorted([*one, *other], key=lambda scrape: scrape.mono))
    window.forget("triton-1")
    assert set(window.window().servers) == {"triton-0"}


def test_thirty_days_leave_no_more_than_one_did():
    """Every ten minutes, models come and go, traces arrive: what is held does not grow."""
    window = RollingWindow("chat", 2_400.0, max_spans=500)
    sizes = []
    for number in range(30 * 144):
        at = START + number * 600.0
        model = f"v{number // 144}"
        page = f'nv_inference_request_success{{model="{model}",version="1"}} {number}\n'
        config = f'{{"name": "{model}"}}' if number % 144 == 0 else None
        for kind, body in ((BodyKind.METRICS, page), (BodyKind.CONFIG, config)):
            if body is not None:
                name = model if kind is BodyKind.CONFIG else ""
                window.add(Scrape(server="t", kind=kind, at=at, mono=at, body=body.encode(), name=name))
        trace = call(trace_id(number), Leg(model=model, compute=0.1), number * 300.0)
        window.add(Scrape(server="", kind=BodyKind.TRACES, at=at + 0.2, mono=at + 0.2, body=export(trace)))
        if number % 144 == 143:
            built = window.window()
            sizes.append((len(window._recent), len(window._spans._traces), len(window._spans._arrivals)))
            assert built.seconds == pytest.approx(2_400.0)
    assert set(sizes) == {sizes[0]}
    assert len(window._lasting) == 30


def test_models_that_are_invented_for_ever_are_let_go_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "MOST_LASTING", 50)
    window = RollingWindow("chat", 60.0, max_spans=500)
    for number in range(500):
        at = START + number * 15.0
        config = f'{{"name": "m{number}"}}'.encode()
        window.add(Scrape(server="t", kind=BodyKind.CONFIG, at=at, mono=at, body=config, name=f"m{number}"))
    assert len(window._lasting) == 50


def test_spans_are_gone_when_counters_go_on_without_them():
    window = RollingWindow("chat", 300.0, max_spans=500)
    window.add(scraped(START))
    window.add(traced(START + 1.0, 0.5))
    assert len(window.window().traces.requests) == 1
    window.add(scraped(START + 400.0))
    built = window.window()
    assert (len(built.traces.requests), built.traces.counts.received) == (0, 0)


def scraped(at: float) -> Scrape:
    body = b'nv_inference_request_success{model="m",version="1"} 1\n'
    return Scrape(server="t", kind=BodyKind.METRICS, at=at, mono=at, body=body)


def traced(arrived: float, began: float) -> Scrape:
    body = export(ensemble_trace(trace_id(1), began, SAFETY))
    return Scrape(server="", kind=BodyKind.TRACES, at=arrived, mono=arrived, body=body)


def spans_of(number: int, began: float) -> bytes:
    return export(ensemble_trace(trace_id(number), began, SAFETY))


def test_counts_of_spans_are_those_of_the_span_of_time():
    spans = RecentSpans(60.0, 10_000)
    for second in range(600):
        spans.add(spans_of(second, float(second)), START + second + 0.2)
    spans.add(b"{", START + 600)
    assert 58 <= len(spans.traces().requests) <= 66
    spans.let_go(START + 2_000)
    counts = spans.counts
    assert (counts.bodies, counts.received, counts.corrupt, counts.unreadable, counts.dropped) == (0, 0, 0, 0, 0)
    assert spans.traces().requests == []


def test_a_burst_costs_spans_only_until_it_is_over():
    spans = RecentSpans(60.0, 200)
    for number in range(500):
        spans.add(spans_of(number, number * 0.01), START + number * 0.01)
    assert spans.counts.kept_share < 1
    for number in range(500, 620):
        spans.add(spans_of(number, number - 480.0), START + number - 480.0)
    spans.let_go(START + 200)
    assert spans.counts.kept_share == 1


@pytest.mark.parametrize("step", [-86400.0, 86400.0])
def test_a_clock_that_steps_leaves_nothing_behind(step: float):
    spans = RecentSpans(60.0, 10_000)
    ticks = itertools.count()
    for second in range(100):
        spans.add(spans_of(next(ticks), float(second)), START + second)
    for second in range(100):
        spans.add(spans_of(next(ticks), step + second), START + step + second)
    spans.let_go(START + step + 100)
    assert len(spans._arrivals) <= 61
    assert len(spans._traces) <= 62
