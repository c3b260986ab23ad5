"""A server of a thousand models takes time in proportion to them, not to their square."""

from __future__ import annotations

import gc
import json
import time
import weakref
from collections.abc import Sequence

import pytest

from diagnostics.diagnosis.explanation import Verdict
from diagnostics.evidence import coverage, evidence
from diagnostics.service import deployment
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.signals.signal import Scope
from diagnostics.window.normalize import positions_of
from diagnostics.window.parsed import MOST_MODELS
from diagnostics.window.window import WindowBuilder
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import Stage, SyntheticTriton, explained, model_config
from tests.store.lived import deployment as watched


def seconds_for(models: int) -> float:
    stages = tuple(Stage(f"m{i}", rate=1, execution=0.001, config=model_config(f"m{i}")) for i in range(models))
    window = SyntheticTriton(models=stages).window(6)
    begun = time.process_time()
    explained(window)
    return time.process_time() - begun


def test_ten_times_the_models_take_about_ten_times_as_long():
    seconds_for(10)  # imports and caches
    assert seconds_for(1000) < 30 * seconds_for(100)


@pytest.mark.parametrize(("rates", "verdict"), [((9, 0, 5, 0, 7), "healthy"), ((9, 1, 5, 1, 7), "insufficient-data")])
def test_of_too_many_models_the_busiest_are_judged_and_requests_of_others_forbid_healthy(
    rates: Sequence[float], verdict: str, monkeypatch: pytest.MonkeyPatch
):
    stages = tuple(
        Stage(f"m{at}", rate=rate, execution=0.001, config=model_config(f"m{at}")) for at, rate in enumerate(rates)
    )
    window = SyntheticTriton(models=stages).window(30)
    whole = explained(window)
    assert (whole.verdict, str(whole.evidence.coverage())) == (Verdict.HEALTHY, "")
    for module in (coverage, evidence):
        monkeypatch.setattr(module, "MOST_JUDGED", 3)
    found = explained(window)
    assert [on.model for on in found.evidence.subjects(Scope.MODEL)] == ["m0", "m2", "m4"]
    assert {result.subject.model for result in found.results if result.subject.version} == {"m0", "m2", "m4"}
    assert found.verdict.value == verdict
    assert any(spot.what.startswith("2 models, ") for spot in found.blind_spots)


def test_a_server_of_more_models_than_are_read_is_not_called_healthy():
    page = "".join(f'nv_inference_request_success{{model="m{at}",version="1"}} 1\n' for at in range(MOST_MODELS + 1))
    builder = WindowBuilder()
    builder.add(Scrape(server="s", kind=BodyKind.METRICS, at=1000.0, mono=1000.0, body=page.encode()))
    found = coverage.coverage(builder.build("d"))
    assert found.hides_requests
    assert str(found) == "further models of s"


@pytest.mark.parametrize("kind", [BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX])
def test_of_very_many_models_the_first_are_judged_and_the_others_are_counted(kind: BodyKind):
    """Their names change from round to round: each would be a model of its own in the window."""
    count, builder = 3 * MOST_MODELS, WindowBuilder()
    for number in range(3):
        names = [f"m{number}-{at}" for at in range(count)]
        if kind is BodyKind.METRICS:
            body = "".join(f'nv_inference_request_success{{model="{name}",version="1"}} 1\n' for name in names).encode()
        else:
            entries = [{"name": name, "version": "1"} for name in names]
            body = json.dumps({"model_stats": entries} if kind is BodyKind.STATISTICS else entries).encode()
        builder.add(Scrape(server="s", kind=kind, at=1000.0 + number, mono=1000.0 + number, body=body))
    server = builder.build("d").servers["s"]
    assert len(server.keys_seen()) <= MOST_MODELS
    assert all(len(entries) <= MOST_MODELS for _, entries in server.index)
    assert "'4,000 more'" in server.refused


def test_pages_that_come_faster_than_they_are_read_are_not_waited_for_and_not_all_kept(monkeypatch: pytest.MonkeyPatch):
    """Each has new names; without an end the first deployment would be judged for ever, and no other."""
    monkeypatch.setattr(deployment, "_SECONDS_AT_ONCE", 0.0001)
    metrics = OwnMetrics()
    one = watched(metrics)
    page = b"x" * (20 * 2**20)
    given = [one.give(Scrape(server="s", kind=BodyKind.LOG, at=1000.0, mono=1000.0, body=page)) for _ in range(5)]
    assert given == [True, True, True, False, False]
    one.take_in()
    assert one.give(Scrape(server="s", kind=BodyKind.LOG, at=1000.0, mono=1000.0, body=page))
    assert not one.give(Scrape(server="s", kind=BodyKind.LOG, at=1000.0, mono=1000.0, body=page))


def test_positions_on_a_page_are_forgotten_with_it():
    reader = ExpositionReader()
    layout = reader.read(b'nv_x{model="m"} 1\n').layout
    assert positions_of(layout, "nv_x", {"model": "m"}) == (0,)
    gone = weakref.ref(layout)
    del layout
    reader.read(b'nv_x{model="n"} 1\n')
    gc.collect()
    assert gone() is None
