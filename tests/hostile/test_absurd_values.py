"""Numbers and times that no server sends lead to a failed read, never to a crash."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Subject
from diagnostics.window.window import window_of
from diagnostics.wire.capture_layout import scrape_at
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import parse_statistics
from diagnostics.wire.spans import MARKS, first_marks
from tests.builders import Stage, SyntheticTriton, explained, metrics_page, model_config
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
    odd = [s for s in scrapes if s.kind is BodyKind.STATISTICS][5]
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


@pytest.mark.parametrize("rounding", [0.001, 200.0])  # with the whole recording in two reads, no time stands out
def test_a_clock_that_jumps_by_decades_is_no_hang(rounding: float):
    scrapes = scrapes_of("cpu-handed-batch-collapse")
    times = sorted(scrape.at for scrape in scrapes if scrape.kind is BodyKind.METRICS)
    middle = times[len(times) // 2]
    jumped = [replace(s, at=s.at + 1e9, mono=s.mono + 1e9) if s.at > middle else s for s in scrapes]
    times = [round(s.at / rounding) * rounding for s in jumped]
    jumped = [replace(s, at=at, mono=at) for s, at in zip(jumped, times, strict=True)]
    begun = time.process_time()
    explanation_of(jumped)
    assert time.process_time() - begun < 5


def test_an_event_of_a_span_past_64_bits_is_left_out():
    start = 1_700_000_000 * 10**9
    name = next(iter(MARKS))
    assert first_marks([(name, HUGE)], start) == {}
    assert first_marks([(name, start + 1)], start)


@pytest.mark.parametrize("absurd", ["+Inf", "1e308", "1.8446744073709552e+16", "-1"])
def test_one_absurd_count_of_failures_is_no_failing_model(absurd: str):
    scrapes = scrapes_of("cpu-handed-healthy")
    odd = sorted((s for s in scrapes if s.kind is BodyKind.METRICS), key=lambda s: s.at)[4]
    assert odd.body is not None
    lines = [
        line.rsplit(b" ", 1)[0] + f" {absurd}".encode() if line.startswith(b"nv_inference_request_failure{") else line
        for line in odd.body.split(b"\n")
    ]
    found = explanation_of([replace(s, body=b"\n".join(lines)) if s is odd else s for s in scrapes])
    assert not found.actionable


@pytest.mark.parametrize("absurd", ["+Inf", "Nan", "-Inf", "1e308"])
def test_a_processor_in_use_without_end_is_no_reading(absurd: str):
    page = metrics_page({}, [f"nv_cpu_utilization {absurd}"])
    scrapes = [Scrape(server="s", kind=BodyKind.METRICS, at=at, mono=at, body=page.encode()) for at in (1.0, 3.0, 5.0)]
    reading = WindowEvidence(window_of(scrapes)).read(HOST_CPU_BUSY, Subject(server="s"))
    assert reading.value is None


@pytest.mark.parametrize("seconds", [60.0, 3600.0])
@pytest.mark.parametrize("name", ["gpu-handed-gpu-saturated", "cpu-handed-single-instance", "cpu-handed-batch-no-gain"])
def test_a_clock_that_jumps_makes_no_bursts(name: str, seconds: float):
    scrapes = scrapes_of(name)
    times = sorted(scrape.at for scrape in scrapes if scrape.kind is BodyKind.METRICS)
    middle = times[len(times) // 2]
    jumped = [replace(s, at=s.at + seconds, mono=s.mono + seconds) if s.at > middle else s for s in scrapes]
    assert "bursty-arrivals" not in {finding.check for finding in explanation_of(jumped).actionable}
