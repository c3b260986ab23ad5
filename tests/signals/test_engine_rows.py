"""Engines without gauges are known by what requests bring; rows that only hand over tell nothing of their time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from diagnostics.anatomy.anatomy import Phase
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.render.explanation.json import report
from diagnostics.signals.engine_samples import is_engine
from diagnostics.window.parsed import ClientRequest
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, chain, explained, model_config, view_of
from tests.render.shown import markdown, text

HANDOVER = 0.0012
# Interfaces as published: TensorRT-LLM's llmapi/tensorrt_llm, vllm_backend's vllm_model, TensorRT-LLM's Python runtime.
LLM_API = ("text_input", "streaming", "sampling_param_temperature", "sampling_param_max_tokens", "stop", "lora_id")
VLLM = ("text_input", "stream", "sampling_parameters")
RUNTIME = ("input_ids", "input_lengths", "request_output_len", "streaming")
BLS = ("text_input", "max_tokens", "top_k", "temperature", "stream")


def config(
    inputs: Iterable[str] = LLM_API, *, decoupled: bool = False, parameters: Iterable[str] = ()
) -> Mapping[str, object]:
    return model_config(
        "llm",
        input=[{"name": name, "data_type": "TYPE_STRING", "dims": [-1]} for name in inputs],
        model_transaction_policy={"decoupled": decoupled},
        parameters={key: {"string_value": "x"} for key in parameters},
    )


def server(
    config: Mapping[str, object],
    execution: float = HANDOVER,
    rate: float = 5,
    extra: Callable[[int], Iterable[str]] = lambda _: (),
) -> SyntheticTriton:
    stage = Stage("llm", rate=rate, execution=execution, config=config)
    return SyntheticTriton(models=(stage,), extra_metrics=extra)


def engine(triton: SyntheticTriton) -> bool:
    return is_engine(view_of(triton.window(), "llm"))


@pytest.mark.parametrize(
    "interface",
    [config(LLM_API), config(VLLM, decoupled=True), config(RUNTIME, decoupled=True, parameters=["gpt_model_path"])],
)
def test_a_python_model_with_an_engines_interface_that_only_hands_over_is_one(interface: Mapping[str, object]) -> None:
    assert engine(server(interface))


@pytest.mark.parametrize(
    "interface",
    [
        config(("IN", "LENGTH"), decoupled=True),
        config(("text_input", "language"), decoupled=True),
        config(("prompt", "sampling_param_seed"), decoupled=True),
        config(VLLM, decoupled=False),
        config(BLS, decoupled=True, parameters=["tensorrt_llm_model_name"]),
        config(LLM_API, parameters=["tensorrt_llm_model_name"]),
        config(RUNTIME, decoupled=True, parameters=["context_model_name", "generation_model_name"]),
        config(RUNTIME, decoupled=True),
    ],
)
def test_other_python_models_are_none_whatever_they_do(interface: Mapping[str, object]) -> None:
    assert not engine(server(interface))


@pytest.mark.parametrize(("execution", "rate"), [(0.4, 0.5), (0.02, 40)])
def test_a_model_that_is_at_work_in_its_own_row_is_no_engine(execution: float, rate: float) -> None:
    assert not engine(server(config(), execution=execution, rate=rate))


def test_an_engine_without_gauges_is_not_called_healthy_by_the_time_to_hand_over() -> None:
    reported = server(config()).explain()

    assert reported.verdict is Verdict.INSUFFICIENT_DATA
    assert "handed to its engine" in reported.reason
    assert any("engine seconds" in spot.what and "trace" in spot.fix for spot in reported.blind_spots)
    assert reported.actionable == ()


def test_an_ordinary_decoupled_model_is_judged_by_its_row_where_that_shows_it_at_work() -> None:
    reported, works = (server(config(("IN",), decoupled=True), execution=one).explain() for one in (HANDOVER, 0.06))

    assert reported.verdict is Verdict.INSUFFICIENT_DATA
    assert "is decoupled and may answer after its row ended" in reported.reason
    assert works.verdict is Verdict.HEALTHY


def test_a_short_row_without_a_configuration_may_be_that_of_a_decoupled_model() -> None:
    short, works = (
        server(config(("IN",)), execution=one).without(BodyKind.CONFIG).explain() for one in (HANDOVER, 0.06)
    )

    assert short.verdict is Verdict.INSUFFICIENT_DATA
    assert "may be decoupled and answer after its row ended: its configuration was not read" in short.reason
    assert "config" in short.next_measurement
    assert "may be decoupled" not in works.reason


def _first_entry(reported: Explanation) -> Mapping[str, object]:
    anatomy = report(reported)["anatomy"]
    assert isinstance(anatomy, list)
    return dict(anatomy[0])


def test_a_row_that_may_end_before_its_requests_is_not_shown_as_their_time() -> None:
    reported, works = (server(config(("IN",), decoupled=True), execution=one).explain() for one in (HANDOVER, 0.06))

    assert "the row of llm takes 1.2 ms, and may end before its requests do" in text(reported)
    assert "### the row of llm takes 1.2 ms" in markdown(reported)
    assert _first_entry(reported)["mean_is_lower_bound"]
    assert "where llm spends its 60 ms" in text(works)
    assert not _first_entry(works)["mean_is_lower_bound"]


def test_a_card_that_no_request_meets_is_no_blind_spot_of_an_explained_window() -> None:
    def fixes(groups: Sequence[Mapping[str, object]]) -> list[str]:
        busy = Stage("m", rate=9, execution=0.1, queue=0.5, config=model_config("m", groups=groups))
        reported = SyntheticTriton(models=(busy,), gpu={"utilization_gpu_percent": 20}).explain()
        assert reported.verdict is Verdict.DEGRADED
        return [spot.what for spot in reported.blind_spots if "NVML" in spot.fix]

    assert not fixes([{"kind": "KIND_CPU", "count": 1}])
    assert fixes([{"kind": "KIND_GPU", "count": 1, "gpus": [0]}])


def test_inside_an_ensemble_the_engines_time_is_what_the_others_leave() -> None:
    ensemble = Stage("chat", rate=5, overhead=0.4, config=chain("chat", "tokenizer", "llm"))
    tokenizer = Stage("tokenizer", rate=5, execution=0.002, config=model_config("tokenizer", backend="onnxruntime"))
    llm = Stage("llm", rate=5, execution=HANDOVER, config=config())
    (chat,) = SyntheticTriton(models=(ensemble, tokenizer, llm)).explain().anatomy
    stage = chat.stage("llm")

    assert stage is not None
    assert stage.cells[Phase.ENGINE] == pytest.approx(0.4 - 0.002 - HANDOVER, abs=1e-4)


def test_what_vllm_counts_itself_is_the_time_of_its_requests() -> None:
    def lines(read: int) -> Iterable[str]:
        done = (20 + read) * 25
        yield f'vllm:e2e_request_latency_seconds_sum{{model="llm",version="1"}} {done * 1.9}'
        yield f'vllm:e2e_request_latency_seconds_count{{model="llm",version="1"}} {done}'

    reported = server(model_config("llm", backend="vllm"), extra=lines).explain()
    (item,) = reported.anatomy

    assert item.mean_seconds == pytest.approx(1.9, abs=0.01)
    assert item.stages[0].cells[Phase.ENGINE] == pytest.approx(1.9 - HANDOVER, abs=1e-4)
    assert "engine waiting requests not exported" in reported.reason


def threads(*, copied: float = 5e-6, execution: float = 0.0004, **more: object) -> SyntheticTriton:
    """Return a server of one Python model; so many seconds are spent on each answer when its execution ends."""
    config = model_config("pool", **more)
    return SyntheticTriton(models=(Stage("pool", rate=40, execution=execution, output=copied, config=config),))


def test_executions_that_end_at_once_and_copy_no_answer_leave_the_request_to_a_thread() -> None:
    reported = threads().explain()

    assert reported.verdict is Verdict.INSUFFICIENT_DATA
    assert "handed to a thread of its own" in reported.reason
    assert "trace" in reported.next_measurement


@pytest.mark.parametrize(
    "triton",
    [
        threads(copied=40e-6),
        threads(execution=0.02),
        threads(backend="onnxruntime"),
        threads(response_cache={"enable": True}),
    ],
)
def test_a_model_that_answers_when_its_execution_ends_is_judged_by_its_row(triton: SyntheticTriton) -> None:
    assert triton.explain().verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("seconds", "verdict"), [(0.002, Verdict.HEALTHY), (0.3, Verdict.INSUFFICIENT_DATA)])
def test_clients_that_wait_no_longer_than_the_row_show_that_nothing_is_hidden(seconds: float, verdict: Verdict) -> None:
    triton = threads()
    window = triton.window()
    clients = [
        ClientRequest(at=window.start + i / 40, model="pool", seconds=seconds, ok=True)
        for i in range(round(40 * (window.end - window.start - 1)))
    ]

    assert explained(replace(window, clients=clients)).verdict is verdict


def test_in_an_ensemble_the_thread_has_what_the_other_members_leave() -> None:
    ensemble = Stage("chat", rate=40, overhead=0.2, config=chain("chat", "first", "pool"))
    first = Stage("first", rate=40, execution=0.002, config=model_config("first", backend="onnxruntime"))
    (chat,) = SyntheticTriton(models=(ensemble, first, *threads().models)).explain().anatomy
    stage = chat.stage("pool")

    assert stage is not None
    assert stage.cells[Phase.ENGINE] == pytest.approx(0.2 - 0.0024, abs=1e-3)
