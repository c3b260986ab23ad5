"""Numbers and times that no server sends lead to a failed read, never to a crash."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.render.explanation.json import report
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Subject
from diagnostics.units import time_text
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.capture_layout import scrape_at
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.json_body import decimal, number
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.perf_analyzer import parse_perf_analyzer
from diagnostics.wire.prometheus_answer import parse_answer
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


@pytest.mark.parametrize("text", ["1e308", "-1.7e308", "1e31", "9" * 400])
def test_a_number_whose_square_is_none_is_infinite_on_a_page_and_of_a_store_and_no_other_number(text: str):
    sign = -1 if text.startswith("-") else 1
    (value,) = ExpositionReader().read(f"nv_energy_consumption {text}\n".encode()).values
    body = f'{{"status":"success","data":{{"resultType":"scalar","result":[1,"{text}"]}}}}'
    assert value == sign * math.inf
    assert parse_answer(body.encode()).series[0].values[0] == sign * math.inf
    assert number(text) is None
    assert number("1e30") == 1e30


@pytest.mark.parametrize(
    "text", ["\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT FOUR}", "9" * 5000, "-1", "", "1_0", " 1"]
)
def test_what_a_label_spells_is_a_count_only_in_few_plain_digits(text: str):
    assert decimal(text) is None
    assert decimal("0042") == 42


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_a_version_or_card_that_spells_no_count_is_no_crash(text: str):
    page = metrics_page({}, [f'vllm:cache_config_info{{num_gpu_blocks="{text}",block_size="{text}"}} 1'])
    page += f'nv_inference_count{{model="m",version="{text}"}} 1\n'
    page += f'nv_inference_request_summary_us{{model="m",version="1",quantile="{text}"}} 1\n'
    scrapes = [Scrape(server="s", kind=BodyKind.METRICS, at=at, mono=at, body=page.encode()) for at in (1.0, 3.0, 5.0)]
    cards = f'DCGM_FI_DEV_GPU_UTIL{{gpu="{text}",UUID="u",GPU_I_ID="{text}"}} 7\n'.encode()
    scrapes += [Scrape(server="", kind=BodyKind.DCGM, at=at, mono=at, body=cards) for at in (1.0, 3.0)]
    assert json.dumps(report(explanation_of(scrapes)), allow_nan=False)


@pytest.mark.parametrize("at", [1e12, 1e18, 1e300, -1e9, "1e18", "NaN", [1]])
def test_a_recording_of_a_time_that_no_calendar_has_has_none(at: object, tmp_path: Path):
    stated = {"format": 1, "window_from": at, "window_to": at}
    (tmp_path / "capture.json").write_text(json.dumps(stated))
    (tmp_path / "s").mkdir()
    (tmp_path / "s/server.log").write_text("I0101 00:00:00.000000 1 model.cc:1] successfully loaded 'm' version 1\n")
    capture = open_capture(tmp_path)
    assert (capture.manifest.window_from, capture.manifest.window_to) == (None, None)
    assert json.dumps(report(explanation_of(list(capture.scrapes()))), allow_nan=False)


@pytest.mark.parametrize(("at", "text"), [(1e18, "9999-12-31T23:59:59Z"), (-1e300, "1970-01-01T00:00:00Z")])
def test_a_time_is_shown_by_some_calendar(at: float, text: str):
    assert time_text(at) == text
    assert time_text(math.nan) == "1970-01-01T00:00:00Z"


def test_a_front_end_that_shows_no_failures_is_no_crash():
    text = (Path(__file__).parents[1] / "collect/pages/dynamo_frontend_kv.txt").read_text()
    page = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("dynamo_frontend_requests_total"))
    scrapes = [Scrape(server="s", kind=BodyKind.METRICS, at=at, mono=at, body=page.encode()) for at in (1.0, 3.0, 5.0)]
    assert json.dumps(report(explanation_of(scrapes)), allow_nan=False)


@pytest.mark.parametrize(
    "text",
    [
        "Request concurrency: 1\n  Client:\n    Request count: 9.5.2\n    Throughput: . infer/sec\n",
        f"Request concurrency: 1\nBatch size: {'9' * 5000}\n  Client:\n    Request count: {'9' * 400}\n",
        f"Concurrency,Inferences/Second,Avg latency\n1,{'9' * 200_000},7\n",
        'Concurrency,Inferences/Second,Avg latency\n"\0,1,7\n',
    ],
    ids=range(4),
)
def test_a_load_test_with_numbers_that_are_none_is_no_crash(text: str):
    with pytest.raises(MalformedBody):
        parse_perf_analyzer(text.encode())
