from __future__ import annotations

import json
import random

import pytest

from diagnostics.anatomy.anatomy import Phase, anatomies
from diagnostics.anatomy.from_traces import spread_of
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, chain, ensemble_config, explained, model_config
from tests.builders_traces import Json, Leg, call, ensemble_trace, export, exported, span, trace_id

CHAT = chain("chat", "tokenizer", "safety")


def server(queue: float = 0.1, rate: float = 10.0) -> SyntheticTriton:
    return SyntheticTriton(
        models=(
            Stage("chat", rate=rate, overhead=0.022 + queue, config=CHAT),
            Stage("tokenizer", rate=rate, execution=0.002, config=model_config("tokenizer")),
            Stage("safety", rate=rate, execution=0.02, queue=queue, config=model_config("safety")),
        )
    )


def legs(queue: float) -> tuple[Leg, ...]:
    return (Leg(model="tokenizer", compute=0.002), Leg(model="safety", queue=queue, compute=0.02))


def traced(queues: list[float]) -> bytes:
    return export(s for n, queue in enumerate(queues) for s in ensemble_trace(trace_id(n), n * 0.9, legs(queue)))


def window(triton: SyntheticTriton, *bodies: bytes) -> Window:
    return window_of([*triton.scrapes(), *map(exported, bodies)])


def test_traces_that_agree_give_cells_medians_and_tails() -> None:
    queues = [0.05 + 0.1 * n / 59 for n in range(60)]
    (chat,) = anatomies(WindowEvidence(window(server(), traced(queues))))

    assert (chat.source, chat.traced, chat.requests) == ("traces", 60, pytest.approx(600))
    safety = chat.stage("safety")
    assert safety is not None
    assert safety.cells[Phase.QUEUE] == pytest.approx(0.1)
    assert safety.spread[Phase.QUEUE].p50 == pytest.approx(0.1, abs=0.002)
    assert safety.spread[Phase.QUEUE].p95 == pytest.approx(0.145, abs=0.002)
    assert chat.spread is not None
    assert chat.spread.p95 == pytest.approx(0.167, abs=0.002)
    assert chat.mean_seconds == pytest.approx(sum(stage.seconds for stage in chat.stages) + chat.unattributed_seconds)


def test_fewer_than_thirty_traces_leave_the_counters() -> None:
    (chat,) = anatomies(WindowEvidence(window(server(), traced([0.1] * 29))))

    assert (chat.source, chat.traced, chat.doubt) == ("statistics", 29, "")


def test_traces_that_contradict_the_counters_are_not_used_and_stated_so() -> None:
    found = explained(window(server(), traced([0.3] * 60)))
    (chat,) = found.anatomy

    assert chat.source == "statistics"
    assert "322 ms" in chat.doubt
    assert [spot.what for spot in found.blind_spots if "traces" in spot.what] == ["traces of chat"]


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_of_the_same_requests_is_believed(seed: int) -> None:
    draw = random.Random(seed)
    everything = [draw.expovariate(10.0) for _ in range(600)]
    triton = server(queue=sum(everything) / len(everything))
    (chat,) = anatomies(WindowEvidence(window(triton, traced(everything[::10]))))

    assert chat.source == "traces"


def test_requests_that_lack_a_stage_are_left_out() -> None:
    refused = [s for n in range(60) for s in ensemble_trace(trace_id(n), n * 0.9, legs(0.1)[:1])]
    (chat,) = anatomies(WindowEvidence(window(server(), export(refused))))

    assert (chat.source, chat.traced) == ("statistics", 0)


def test_a_branch_that_another_outlasts_takes_nothing_of_a_request() -> None:
    graph = ensemble_config(
        "chat",
        ("split", ("in",), ("a", "b")),
        ("left", ("a",), ("c",)),
        ("right", ("b",), ("d",)),
        ("join", ("c", "d"), ("out",)),
    )
    names = ("split", "left", "right", "join")
    triton = SyntheticTriton(
        models=(
            Stage("chat", rate=10.0, overhead=0.07, config=graph),
            *(Stage(name, rate=10.0, execution=0.01, config=model_config(name)) for name in names),
        )
    )
    branches = (
        Leg(model="split", compute=0.01, starts=0.0),
        Leg(model="left", compute=0.02, starts=0.01),
        Leg(model="right", compute=0.05, starts=0.01),
        Leg(model="join", compute=0.01, starts=0.06),
    )
    spans = [s for n in range(60) for s in ensemble_trace(trace_id(n), n * 0.9, branches)]
    (chat,) = anatomies(WindowEvidence(window(triton, export(spans))))

    assert [stage.path_share for stage in chat.stages] == [1.0, 0.0, 1.0, 1.0]
    assert [stage.seconds for stage in chat.stages] == pytest.approx([0.01, 0.0, 0.05, 0.01])
    assert chat.stages[1].spread[Phase.COMPUTE].p50 == pytest.approx(0.02)
    assert chat.unattributed_seconds == pytest.approx(0.0, abs=1e-6)


ENGINE = model_config("llm", model_transaction_policy={"decoupled": True})


def test_an_engines_hidden_time_is_the_gap_behind_it_and_other_gaps_are_not() -> None:
    stages = (
        Leg(model="tokenizer", compute=0.002),
        Leg(model="llm", compute=0.0005, gap=0.003),
        Leg(model="detokenizer", compute=0.001, gap=0.1),
    )
    triton = SyntheticTriton(
        models=(
            Stage("chat", rate=10.0, overhead=0.1065, config=chain("chat", "tokenizer", "llm", "detokenizer")),
            Stage("tokenizer", rate=10.0, execution=0.002, config=model_config("tokenizer")),
            Stage("llm", rate=10.0, execution=0.0005, config=ENGINE),
            Stage("detokenizer", rate=10.0, execution=0.001, config=model_config("detokenizer")),
        )
    )
    spans = [s for n in range(60) for s in ensemble_trace(trace_id(n), n * 0.9, stages)]
    (chat,) = anatomies(WindowEvidence(window(triton, export(spans))))

    llm = chat.stage("llm")
    assert llm is not None
    assert llm.cells[Phase.ENGINE] == pytest.approx(0.1)
    assert llm.gap_seconds == pytest.approx(0.003)
    assert chat.unattributed_seconds == pytest.approx(0.003)


def test_an_engine_that_is_called_directly_takes_until_its_answer_is_sent() -> None:
    triton = SyntheticTriton(models=(Stage("llm", rate=10.0, execution=0.0005, config=ENGINE),))
    spans: list[Json] = []
    for n in range(60):
        at = n * 0.9
        spans += [
            s for s in call(trace_id(n), Leg(model="llm", compute=0.0005), at, front=0.0) if s["name"] != "InferRequest"
        ]
        marks = {"HTTP_RECV_START": at, "HTTP_RECV_END": at, "HTTP_SEND_START": at + 0.1, "HTTP_SEND_END": at + 0.1}
        spans.append(span(trace_id(n), f"llm-{at:.6f}", "InferRequest", at, at + 0.1, marks=marks))
    (llm,) = anatomies(WindowEvidence(window(triton, export(spans))))

    assert llm.source == "traces"
    assert llm.stages[0].cells[Phase.ENGINE] == pytest.approx(0.0995)
    assert llm.mean_seconds == pytest.approx(0.1)
    # The frontend's span of the window's last request comes later.
    (cut,) = anatomies(WindowEvidence(window(triton, export(spans[:-1]))))
    assert (cut.traced, cut.mean_seconds) == (59, pytest.approx(0.1))


def by_hand(clients: float | None, *, chat: float = 0.0) -> Explanation:
    triton = SyntheticTriton(
        models=(
            Stage("chat", rate=chat, overhead=0.022, config=CHAT),
            Stage("tokenizer", rate=10.0, execution=0.002, config=model_config("tokenizer")),
            Stage("safety", rate=10.0, execution=0.02, config=model_config("safety")),
        )
    )
    scrapes = triton.scrapes()
    if clients is not None:
        lines = [{"t": START + n * 0.1, "model": "chat", "ms": clients * 1e3, "ok": True} for n in range(590)]
        body = "\n".join(map(json.dumps, lines)).encode()
        scrapes.append(Scrape(server="", kind=BodyKind.CLIENT, at=START, mono=START, body=body))
    return explained(window_of(scrapes))


def test_an_orchestration_is_one_request_to_its_client() -> None:
    found = by_hand(0.08)

    (chat,) = found.anatomy
    assert (chat.ensemble, chat.mean_seconds) == ("chat", pytest.approx(0.08))
    assert chat.unattributed_seconds == pytest.approx(0.058)
    (finding,) = found.actionable
    assert (finding.check, finding.subject.ensemble) == ("external-orchestration", "chat")
    assert finding.impact.share_of_latency == pytest.approx(0.725, rel=0.01)


def test_an_orchestration_whose_calls_cost_little_is_only_reported() -> None:
    found = by_hand(0.023)

    assert found.verdict is Verdict.HEALTHY
    severities = {finding.check: finding.severity for finding in found.findings}
    assert severities["external-orchestration"] is Severity.INFO


def test_an_orchestration_without_client_records_is_named_with_less_confidence() -> None:
    (seen,), (unseen,) = by_hand(0.08).actionable, by_hand(None).actionable

    assert unseen.check == "external-orchestration"
    assert unseen.confidence < seen.confidence


def test_an_ensemble_that_is_in_use_is_no_orchestration() -> None:
    assert "external-orchestration" not in {finding.check for finding in by_hand(0.08, chat=10.0).findings}


def test_ranks_of_a_spread_are_values_that_were_seen() -> None:
    spread = spread_of([float(n) for n in range(1, 101)])

    assert (spread.p50, spread.p95) == (50.0, 95.0)
    assert spread_of([3.0]).p95 == 3.0
