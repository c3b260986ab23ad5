from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window import traces
from diagnostics.window.graph import graph_of, path_of
from diagnostics.window.traces import MAX_SPANS, SpanStore, Traces, clock_skew
from diagnostics.wire.model_config import parse_model_config
from tests.builders_traces import Json, Leg, call, ensemble_trace, export, span, trace_id

STAGES = (
    Leg(model="tokenizer", queue=0.001, compute=0.002),
    Leg(model="safety", queue=0.1, input=0.001, compute=0.02, output=0.004, gap=0.003),
)


def traces_of(*bodies: bytes, most: int = MAX_SPANS) -> Traces:
    store = SpanStore(most)
    for body in bodies:
        store.add(body)
    return store.traces()


def test_an_ensembles_request_is_put_together_from_its_spans() -> None:
    (request,) = traces_of(export(ensemble_trace(trace_id(1), 1.0, STAGES, tail=0.002))).requests

    tokenizer, safety = request.root.below
    assert (request.root.model, tokenizer.model, safety.model) == ("chat", "tokenizer", "safety")
    assert safety.queue_seconds == pytest.approx(0.1)
    assert safety.input_seconds == pytest.approx(0.001)
    assert safety.compute_seconds == pytest.approx(0.02)
    assert safety.output_seconds == pytest.approx(0.004)
    assert safety.executed
    assert not request.root.executed
    assert request.root.seconds == pytest.approx(0.133)


@given(seed=st.integers(0, 1000))
def test_neither_order_nor_batches_nor_duplicates_change_the_requests(seed: int) -> None:
    spans = [span for n in range(4) for span in ensemble_trace(trace_id(n), float(n), STAGES)]
    draw, shuffled = random.Random(seed), list(spans)
    draw.shuffle(shuffled)
    cut = draw.randrange(len(spans))

    found = traces_of(export(shuffled[:cut]), export(shuffled[cut:]), export(shuffled[:3]))
    assert found.requests == traces_of(export(spans)).requests
    assert found.counts.duplicated == 3


def test_a_stage_whose_parents_never_arrived_is_counted_and_makes_no_request() -> None:
    spans = [s for s in ensemble_trace(trace_id(1), 1.0, STAGES) if s["name"] != "chat"]

    found = traces_of(export(spans))
    assert not found.requests
    assert found.counts.orphaned == 2


def test_a_stage_without_its_computation_is_seen_but_has_not_executed() -> None:
    spans = [s for s in ensemble_trace(trace_id(1), 1.0, STAGES) if s["name"] != "compute"]

    (request,) = traces_of(export(spans)).requests
    assert [visit.executed for visit in request.root.below] == [False, False]


def test_parents_that_go_in_circles_are_counted_and_make_no_request() -> None:
    circle = [
        span(trace_id(1), one, "m", 1.0, 2.0, parent=other, model="m", nested=True)
        for one, other in itertools.permutations("ab")
    ]

    found = traces_of(export(circle))
    assert not found.requests
    assert found.counts.unreachable == 2


def test_a_trace_of_five_thousand_nested_spans_is_put_together() -> None:
    deep = [
        span(trace_id(1), str(n), "m", 1.0, 2.0, parent=str(n - 1) if n else "", model="m", nested=n > 0)
        for n in range(5000)
    ]

    (request,) = traces_of(export(deep)).requests
    assert sum(1 for _ in request.visits()) == 5000


def test_a_streamed_answer_of_thousands_of_stages_has_a_critical_path() -> None:
    tokens = tuple(Leg(model="detokenizer", compute=0.0001, gap=0.00001) for _ in range(2500))

    (request,) = traces_of(export(ensemble_trace(trace_id(1), 1.0, tokens))).requests
    path = path_of(request.root, None)
    assert path is not None
    assert len(path.steps) == 2500


def test_too_many_spans_leave_whole_traces_and_say_which_share() -> None:
    bodies = [export(ensemble_trace(trace_id(n), n * 0.01, STAGES)) for n in range(400)]

    found = traces_of(*bodies, most=600)
    assert found.counts.received == 400 * 6
    assert found.counts.dropped > 0
    assert len(found.requests) * 6 + found.counts.dropped == found.counts.received
    assert len(found.requests) / 400 == pytest.approx(found.counts.kept_share, rel=0.5)
    assert all(len(request.root.below) == 2 for request in found.requests)


def test_a_trace_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_SPANS_PER_TRACE", 4)

    assert traces_of(export(ensemble_trace(trace_id(1), 1.0, STAGES))).counts.dropped == 2


def test_a_body_that_cannot_be_read_is_counted_with_its_reason() -> None:
    found = traces_of(b"{nonsense", export(ensemble_trace(trace_id(1), 1.0, STAGES)))

    assert (found.counts.bodies, found.counts.unreadable) == (2, 1)
    assert "cannot be read" in found.counts.reason
    assert len(found.requests) == 1


def test_the_frontend_and_the_callers_around_a_request_are_known() -> None:
    spans = call(trace_id(1), Leg(model="safety", compute=0.02), 1.0, parent="shell", front=0.004)
    shell = span(trace_id(1), "shell", "POST /chat", 0.9, 1.5)

    (request,) = traces_of(export(spans), export([shell], service="gateway")).requests
    assert request.server_seconds == pytest.approx(0.024)
    assert request.handling_seconds == pytest.approx(0.004)
    assert [(outer.service, outer.seconds) for outer in request.outer] == [("gateway", pytest.approx(0.6))]
    assert clock_skew(request) == ()


def test_a_caller_whose_clock_is_off_is_reported() -> None:
    spans = call(trace_id(1), Leg(model="safety", compute=0.02), 1.0, parent="shell")
    shell = span(trace_id(1), "shell", "POST /chat", 1.3, 1.9)

    (request,) = traces_of(export(spans), export([shell], service="gateway")).requests
    (skew,) = clock_skew(request)
    assert (skew.service, skew.seconds) == ("gateway", pytest.approx(0.3))


def ensemble(*steps: tuple[str, tuple[str, ...], tuple[str, ...]]):
    import json

    from tests.builders import ensemble_config

    config = parse_model_config(json.dumps(ensemble_config("chat", *steps)).encode())
    return graph_of({"chat": config}).ensembles["chat"]


DIAMOND = ensemble(
    ("split", ("in",), ("a", "b")),
    ("left", ("a",), ("c",)),
    ("right", ("b",), ("d",)),
    ("join", ("c", "d"), ("out",)),
)


def diamond(left: float, right: float) -> list[Json]:
    wait = max(left, right)
    legs = (
        Leg(model="split", compute=0.01, starts=0.0),
        Leg(model="left", compute=left, starts=0.011),
        Leg(model="right", compute=right, starts=0.011),
        Leg(model="join", compute=0.01, starts=0.012 + wait),
    )
    return ensemble_trace(trace_id(1), 1.0, legs)


@pytest.mark.parametrize(("left", "right", "slower"), [(0.05, 0.02, "left"), (0.02, 0.05, "right")])
def test_the_critical_path_leads_through_the_slower_branch(left: float, right: float, slower: str) -> None:
    (request,) = traces_of(export(diamond(left, right))).requests
    path = path_of(request.root, DIAMOND)

    assert path is not None
    assert [step.visit.model for step in path.steps] == ["split", slower, "join"]
    assert path.gap_seconds(lambda _: True) == pytest.approx(0.002, abs=1e-6)


def test_a_gap_behind_an_engine_is_the_engines_although_another_branch_ended_later() -> None:
    legs = (
        Leg(model="split", compute=0.01, starts=0.0),
        Leg(model="left", compute=0.0003, starts=0.011),
        Leg(model="right", compute=0.02, starts=0.011),
        Leg(model="join", compute=0.01, starts=0.2),
    )
    (request,) = traces_of(export(ensemble_trace(trace_id(1), 1.0, legs))).requests
    path = path_of(request.root, DIAMOND, hidden={"left"})

    assert path is not None
    assert [step.visit.model for step in path.steps] == ["split", "left", "join"]
    assert path.gap_seconds({"left"}.__contains__) == pytest.approx(0.2 - 0.0113)
