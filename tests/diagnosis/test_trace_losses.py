"""What is lost of traces is counted and said, whatever was done to them."""

from __future__ import annotations

import gzip

import pytest

from diagnostics.window import traces
from diagnostics.window.window import window_of
from diagnostics.wire import trace_export
from tests.builders import Stage, SyntheticTriton, chain, explained, model_config
from tests.builders_traces import Json, Leg, ensemble_trace, export, exported, trace_id
from tests.render.shown import text

TRITON = SyntheticTriton(
    models=(
        *(Stage(name, rate=38, execution=0.01, config=model_config(name)) for name in "ab"),
        Stage("e", rate=38, overhead=0.02, config=chain("e", "a", "b")),
    )
)
LEGS = (Leg(model="a", compute=0.01), Leg(model="b", compute=0.01))


def requests(number: int = 60) -> list[Json]:
    return [span for i in range(number) for span in ensemble_trace(trace_id(i + 1), 1.0 + i * 0.5, LEGS, name="e")]


def shown(body: bytes) -> str:
    return " ".join(text(explained(window_of([*TRITON.scrapes(), exported(body, 40.0)]))).split())


def test_whole_traces_are_shown_without_a_word_about_them() -> None:
    reported = shown(export(requests()))

    assert "mean of 60 traced requests" in reported
    assert "blind spots" not in reported


def test_corrupt_spans_are_reported_by_their_number() -> None:
    spans = requests()
    for span in spans[::3]:
        span["startTimeUnixNano"] = "noon"

    assert f"{len(spans) // 3} of {len(spans)} spans: they could not be read" in shown(export(spans))


def test_parents_that_go_in_circles_are_reported_by_their_number() -> None:
    spans = requests()
    models = [span for span in spans if "attributes" in span]
    for one, other in zip(models, [*models[1:], models[0]], strict=True):
        one.update(traceId=trace_id(1), parentSpanId=other["spanId"])
    for number, one in enumerate(models):
        one["spanId"] = f"{number:016x}"
        one["parentSpanId"] = f"{(number + 1) % len(models):016x}"

    assert f"{len(models)} of {len(models)} spans: what they belong to never arrived" in shown(export(models))


def test_more_spans_than_are_kept_leave_a_share_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_SPANS", 200)

    assert "% of the traces fit; shorten the window" in shown(export(requests()))


def test_a_body_that_unpacks_to_too_much_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "MAX_UNPACKED_BYTES", 1 << 16)
    spans = requests()

    reported = shown(gzip.compress(export(spans)))

    assert "1 of 1 trace exports: the trace export unpacks to more than" in reported
    assert "in smaller batches" in reported
