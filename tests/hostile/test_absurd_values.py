"""Numbers and times that no server sends lead to a failed read, never to a crash."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.window.window import window_of
from diagnostics.wire.capture_layout import scrape_at
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import Kind
from diagnostics.wire.statistics import parse_statistics
from tests.builders import Stage, SyntheticTriton, explained, model_config
from tests.captures.recorded import explanation_of, scrapes_of

HUGE = 10**400


@pytest.mark.parametrize(
    "body",
    [
        {"model_stats": [{"name": "m", "inference_count": HUGE}]},
        {"model_stats": [{"name": "m", "inference_stats": {"success": {"count": HUGE, "ns": 1}}}]},
        {"model_stats": [{"name": "m", "batch_stats": [{"batch_size": -HUGE}]}]},
    ],
)
def test_a_count_wider_than_any_integer_of_the_protocol_is_refused(body: object):
    with pytest.raises(MalformedBody, match="should be an integer"):
        parse_statistics(json.dumps(body).encode())


def test_a_setting_wider_than_any_integer_of_the_protocol_is_refused():
    with pytest.raises(MalformedBody, match="'count' should be an integer"):
        parse_model_config(json.dumps(model_config("m", groups=[{"count": HUGE}])).encode())


def test_one_absurd_body_of_many_does_not_end_the_explanation():
    stage = Stage("m", rate=40, execution=0.01, config=model_config("m"))
    scrapes = SyntheticTriton(models=(stage,)).scrapes()
    absurd = json.dumps({"model_stats": [{"name": "m", "version": "1", "execution_count": HUGE}]}).encode()
    odd = [s for s in scrapes if s.kind is Kind.STATISTICS][5]
    window = window_of([replace(s, body=absurd) if s is odd else s for s in scrapes])
    assert explained(window).anatomy[0].requests > 0


@pytest.mark.parametrize("path", ["s/metrics/999999999999999.prom", "nvml/999999999999999.json"])
def test_a_stem_past_the_last_calendar_year_is_no_time(path: str):
    assert scrape_at(path, b"x 1\n", 0.0) is None
    assert scrape_at("s/later/999999999999999/config/m.json", b"{}", 0.0) is None


@pytest.mark.parametrize("config", [{"max_batch": 2**31}, {"groups": [{"count": 2**31}]}])
def test_a_setting_wider_than_its_own_field_is_refused(config: dict[str, object]):
    with pytest.raises(MalformedBody, match="should be a 32-bit integer"):
        parse_model_config(json.dumps(model_config("m", **config)).encode())  # type: ignore[arg-type]


def test_a_clock_that_jumps_by_decades_is_no_hang():
    scrapes = scrapes_of("cpu-handed-batch-collapse")
    times = sorted(scrape.at for scrape in scrapes if scrape.kind is Kind.METRICS)
    middle = times[len(times) // 2]
    jumped = [replace(s, at=s.at + 1e9, mono=s.mono + 1e9) if s.at > middle else s for s in scrapes]
    begun = time.process_time()
    explanation_of(jumped)
    assert time.process_time() - begun < 5
