"""What one server says takes no more than its room, and takes nobody else's."""

from __future__ import annotations

import json

import pytest

from diagnostics.window import rolling
from diagnostics.window.normalize import _shared_key, counters_from_metrics, key_of
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind, Scrape


def statistics(server: str, mono: float, models: int) -> Scrape:
    rows = [{"name": f"m{number}", "version": "1"} for number in range(models)]
    body = json.dumps({"model_stats": rows}).encode()
    return Scrape(server=server, kind=BodyKind.STATISTICS, at=mono, mono=mono, body=body)


def config(server: str, mono: float, name: str) -> Scrape:
    body = json.dumps({"name": name, "platform": "x" * 1_000}).encode()
    return Scrape(server=server, kind=BodyKind.CONFIG, name=name, at=mono, mono=mono, body=body)


def test_a_server_that_says_more_than_there_is_room_for_has_a_shorter_window_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "MOST_BYTES", 100 * 1024)
    window = RollingWindow("fleet", 300.0)
    for number in range(50):
        window.add(statistics("huge", float(number), 10))
        window.add(statistics("small", float(number), 1))
        assert window.bytes_by_server["huge"] <= 100 * 1024
    rounds = [one.scrape.server for one in window.records().parsed]
    assert rounds.count("small") == 50
    assert 5 <= rounds.count("huge") <= 10
    assert window.bytes_by_server["small"] == 50 * 1024


def test_models_that_come_and_go_for_weeks_take_bounded_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "MOST_BYTES", 200 * 1024)
    window = RollingWindow("fleet", 10.0)
    for number in range(5_000):
        window.add(config("inventive", float(number), f"model-{number}"))
    parsed = window.records().parsed
    assert len(parsed) < 250
    assert sum(one.size for one in parsed) == window.bytes_by_server["inventive"] <= 200 * 1024
    assert parsed[-1].scrape.name == "model-4999"


def test_what_left_the_window_is_not_counted():
    window = RollingWindow("fleet", 10.0)
    for number in range(100):
        window.add(statistics("one", float(number), 3))
    assert window.bytes_by_server == {"one": 1024 * 3 * len(window.records().parsed)}
    window.forget("one")
    assert window.bytes_by_server == {}


def test_pages_whose_series_are_new_each_time_count_by_their_series(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "MOST_BYTES", 100 * 1024)
    window = RollingWindow("fleet", 300.0)
    for number in range(50):
        rows = (f'nv_inference_count{{model="m{number}-{one}",version="1"}} 1\n' for one in range(20))
        body = "".join(rows).encode()
        window.add(Scrape(server="one", kind=BodyKind.METRICS, at=1.0 * number, mono=1.0 * number, body=body))
    assert len(window.records().parsed) <= 10


@pytest.mark.parametrize(
    ("model", "version", "named"),
    [
        ("chat", "1", True),
        ("meta-llama/Llama-3", "", True),
        ("meta-llama/Llama-3", "1", False),
        ("../../etc/passwd", "", False),
        ("/", "", False),
        ("x" * 60_000, "1", False),
        ("chat", "1" * 60_000, False),
    ],
)
def test_rows_of_names_that_no_model_can_have_are_left_out(model: str, version: str, named: bool):
    labels = f'model="{model}",version="{version}"' if version else f'model="{model}"'
    page = f"nv_inference_request_success{{{labels}}} 1\n".encode()
    rows = counters_from_metrics(ExpositionReader().read(page))
    assert bool(rows) is named


def test_long_names_are_not_remembered():
    before = _shared_key.cache_info().currsize
    for number in range(10):
        key_of(f"{number}" * 60_000, "1")
    assert _shared_key.cache_info().currsize == before
