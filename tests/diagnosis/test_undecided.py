"""Nothing is healthy while an undecided check, or a part that nobody read, could hold what is worth a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.checks.check import CheckCase, Expected, Fires
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.undecided import FEWEST_READS, Open, most_telling
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import Counts, Rows, Stage, SyntheticTriton, chain, explained, model_config
from tests.builders_traffic import sent
from tests.checks.stated import decided

# Checks that may claim time and are bounded otherwise: the module says where.
BOUNDED_ELSEWHERE = frozenset(
    {
        "client-or-transport-bound",
        "ensemble-overhead",
        "external-orchestration",
        "frontend-limited",
        "gpu-contended-by-colocated-model",
        "gpu-contended-by-other-process",
        "gpu-throttled",
        "kv-cache-thrashing",
        "observer-overhead",
        "prefill-interference",
    }
)
# Executions that take turns are looked for by over-instanced too, whose reach has this phase.
BOUNDED_BY_ANOTHER = {"single-instance-serialization": frozenset({Phase.COMPUTE})}
FIRING = [(check, case) for check in catalogue().values() for case in check.cases if case.expect is Expected.FIRES]
SIX = ({"kind": "KIND_CPU", "count": 6},)
FAST = Stage("fast", rate=15, execution=0.055, config=model_config("fast"))
CROWDED = Stage("crowded", rate=72, execution=0.055, config=model_config("crowded", groups=SIX))


def without_configuration(*stages: Stage) -> Explanation:
    return SyntheticTriton(models=stages).without(BodyKind.CONFIG, BodyKind.REPOSITORY).explain()


@pytest.mark.parametrize(("check", "case"), FIRING, ids=[f"{check.id}-{case.title}" for check, case in FIRING])
def test_a_check_claims_no_phase_that_is_not_in_its_reach(check: RegisteredCheck, case: CheckCase) -> None:
    outcome, _ = decided(check, case.readings)
    assert isinstance(outcome, Fires)
    claimed = {claim.phase for claim in outcome.claims if claim.seconds > 0}
    claimed -= BOUNDED_BY_ANOTHER.get(check.id, frozenset())

    assert check.id in BOUNDED_ELSEWHERE or claimed <= check.check.reach, "name these phases in CHECK's reach"


def test_what_is_bounded_elsewhere_has_no_reach() -> None:
    assert set(catalogue()) >= BOUNDED_ELSEWHERE
    assert not {check.id for check in catalogue().values() if check.check.reach} & BOUNDED_ELSEWHERE


def test_an_undecided_check_with_most_of_a_request_in_reach_is_never_healthy() -> None:
    explanation = without_configuration(CROWDED)

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert explanation.reason == "over-instanced of model crowded cannot be decided: instances not exported"
    assert "GET v2/models/<model>/config" in explanation.next_measurement


def test_an_undecided_check_with_little_in_reach_is_not_what_forbids_healthy() -> None:
    explanation = without_configuration(replace(CROWDED, execution=0.004, rate=900))

    assert any(result.check.id == "over-instanced" for result, _ in explanation.unknown)
    assert explanation.reason.startswith("crowded may be decoupled and answer after its row ended")


def test_too_few_requests_at_once_to_crowd_a_card_need_no_configuration() -> None:
    assert without_configuration(FAST).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    ("reads", "verdict"), [(FEWEST_READS - 1, Verdict.INSUFFICIENT_DATA), (FEWEST_READS, Verdict.HEALTHY)]
)
def test_fewer_reads_than_tell_a_change_from_what_is_usual_are_never_healthy(reads: int, verdict: Verdict) -> None:
    explanation = SyntheticTriton(models=(FAST,)).explain(reads=reads)

    assert explanation.verdict is verdict
    if verdict is not Verdict.HEALTHY:
        assert explanation.next_measurement.startswith("read longer or more often")


def _called(*, by_hand: bool) -> Explanation:
    members = ("first", "second", "third")
    stages = [Stage(name, rate=20, execution=0.02, queue=0.001, config=model_config(name)) for name in members]
    # An ensemble's row holds its members' compute, and takes their queue beyond it.
    rate = 0 if by_hand else 20
    chat = Stage("chat", rate=rate, execution=0.06, overhead=0.003, config=chain("chat", *members))
    return without_configuration(*stages, chat)


def test_members_called_in_step_beside_an_idle_row_without_configuration_are_never_healthy() -> None:
    explanation = _called(by_hand=True)

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert "are called in step" in explanation.reason


def test_members_that_their_ensemble_calls_are_healthy_without_configuration() -> None:
    assert _called(by_hand=False).verdict is Verdict.HEALTHY


def without_lines(triton: SyntheticTriton, *parts: bytes) -> Explanation:
    """Return what is said where lines with one of these were dropped from each metrics page."""
    pages = [
        replace(s, body=b"\n".join(x for x in (s.body or b"").split(b"\n") if not any(part in x for part in parts)))
        for s in triton.scrapes()
        if s.kind is BodyKind.METRICS
    ]
    return explained(window_of(pages))


def test_requests_whose_failures_are_not_counted_are_never_healthy() -> None:
    triton = SyntheticTriton(models=(FAST,))
    explanation = without_lines(triton, b"request_failure")

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert explanation.reason.startswith("failures of fast are not counted")


def test_what_only_metrics_pages_show_is_never_healthy() -> None:
    triton = SyntheticTriton(models=(replace(FAST, rate=10, execution=0.06),))
    paged = without_lines(triton, b"nothing")

    assert paged.verdict is Verdict.INSUFFICIENT_DATA
    assert paged.reason.startswith("only metrics pages of triton-0 were read")
    assert "v2/repository/index" in paged.next_measurement
    assert triton.without(BodyKind.METRICS).explain().verdict is Verdict.HEALTHY
    assert triton.without(BodyKind.STATISTICS).explain().verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("copies", "verdict"), [(0.0005, Verdict.HEALTHY), (0.002, Verdict.INSUFFICIENT_DATA)])
def test_large_tensors_whose_way_nobody_measured_are_never_healthy(copies: float, verdict: Verdict) -> None:
    """12.8 ms on a network of 10 Gbit/s for copies of 2 ms, beside 40 ms of work."""
    explanation = SyntheticTriton(models=(replace(FAST, input=copies / 2, output=copies / 2),)).explain()

    assert explanation.verdict is verdict
    assert ("copies of a request's tensors" in explanation.reason) is (verdict is not Verdict.HEALTHY)


@pytest.mark.parametrize("without", [(), (BodyKind.METRICS,), (BodyKind.STATISTICS,)])
def test_counters_that_are_impossible_at_every_read_are_called_that(without: tuple[BodyKind, ...]) -> None:
    """Also where another model's are possible."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        return {key: replace(row, queue=1e12 * number) if key[0] == "fast" else row for key, row in rows.items()}

    other = Stage("other", rate=20, execution=0.01, config=model_config("other"))
    explanation = SyntheticTriton(models=(FAST, other), alter=alter).without(*without).explain()

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert explanation.reason.startswith("counters of fast are impossible at every read")
    assert [finding.check for finding in explanation.findings] == ["telemetry-implausible"]


def decoupled(seconds: float, *, clients: bool = False) -> Verdict:
    config = model_config("d", model_transaction_policy={"decoupled": True})
    triton = SyntheticTriton(models=(Stage("d", rate=10, execution=seconds, config=config),))
    record = [sent([n / 10 for n in range(600)], seconds + 0.001, model="d")] if clients else []
    return explained(window_of([*triton.scrapes(), *record])).verdict


def test_a_decoupled_model_that_only_hands_over_is_healthy_if_clients_say_so() -> None:
    assert decoupled(0.0037) is Verdict.INSUFFICIENT_DATA
    assert decoupled(0.0037, clients=True) is Verdict.HEALTHY
    assert decoupled(0.06) is Verdict.HEALTHY


LLM_API = [
    {"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]},
    {"name": "sampling_param_max_tokens", "data_type": "TYPE_INT32", "dims": [1]},
]
FULL_CACHE = [
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="llm",version="1"} 100',
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="llm",version="1"} 100',
    'nv_trt_llm_request_metrics{model="llm",request_type="waiting",version="1"} 30',
    'nv_trt_llm_request_metrics{model="llm",request_type="active",version="1"} 20',
]


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("backend", ["tensorrtllm", "vllm", "python"])
@pytest.mark.parametrize("answers_once", [False, True])
@pytest.mark.parametrize("read", [(), (BodyKind.CONFIG,)])
def test_an_engine_behind_a_closed_metrics_port_is_never_healthy(
    chained: bool, backend: str, answers_once: bool, read: tuple[BodyKind, ...]
) -> None:
    """Its KV cache is full and thirty requests wait inside, which nothing but its gauges shows."""
    policy = {"model_transaction_policy": {"decoupled": not answers_once}}
    config = model_config("llm", backend=backend, groups=[{"kind": "KIND_CPU", "count": 20}], **policy) | {
        "input": LLM_API
    }
    llm = Stage("llm", rate=5, execution=2.0, config=config)
    pre = Stage("pre", rate=5, execution=0.002, config=model_config("pre"))
    chat = Stage("chat", rate=5, overhead=2.002, config=chain("chat", "pre", "llm"))
    triton = SyntheticTriton(models=(chat, pre, llm) if chained else (llm,), extra_metrics=lambda _: FULL_CACHE)

    assert triton.without(BodyKind.METRICS, *read).explain().verdict is not Verdict.HEALTHY


def lacks(measurement: str, **cells: float) -> Open:
    """Return something undecided that may cost these seconds of a request of one second, by stage."""
    parts = {("s", "e", stage, Phase.QUEUE): seconds for stage, seconds in cells.items()}
    return Open(text=f"{measurement} {sorted(cells)}", next_measurement=measurement, cells=parts, mean_seconds=1.0)


@pytest.mark.parametrize(
    ("left", "first"),
    [
        ([lacks("trace", a=0.5), lacks("read NVML", a=0.3, b=0.3)], "read NVML"),
        ([lacks("trace", a=0.5), lacks("read NVML", b=0.3), lacks("read NVML", c=0.3)], "read NVML"),
        ([lacks("trace", a=0.5), lacks("read NVML", b=0.3), lacks("read NVML", b=0.3)], "trace"),
        ([lacks("trace", a=0.5), lacks("read NVML", a=0.5), lacks("read NVML", a=0.2)], "read NVML"),
        ([lacks("", a=0.5), lacks("trace", a=0.2)], "trace"),
    ],
    ids=["the larger part", "parts of several", "a part once", "as much of more checks", "nothing to measure"],
)
def test_the_measurement_that_decides_most_comes_first(left: list[Open], first: str) -> None:
    found = most_telling(left)

    assert found is not None
    assert found.next_measurement == first


def test_of_a_part_that_is_unexplained_only_what_may_hold_it_is_asked_for() -> None:
    left = [lacks("trace", a=0.5), lacks("read NVML", b=0.2)]
    found = most_telling(left, ("s", "e", "b", Phase.QUEUE))

    assert found is not None
    assert found.next_measurement == "read NVML"
    assert most_telling(left, ("s", "e", "c", Phase.QUEUE)) is None
