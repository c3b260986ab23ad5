"""What is said of a window as a whole: degraded, insufficient data, no clear cause, idle or healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.checks.check import Layer
from diagnostics.diagnosis.explanation import BlindSpot, Verdict, WindowFacts, explain
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import UsageError
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, Stage, SyntheticTriton, chain, explained, model_config

FAST = Stage("fast", rate=20, execution=0.01, config=model_config("fast"))
QUEUED = Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))


def verdict(*stages: Stage, **more: object) -> Verdict:
    return SyntheticTriton(models=stages, **more).explain().verdict  # type: ignore[arg-type]


def test_served_at_once_with_all_in_view_is_healthy() -> None:
    explanation = SyntheticTriton(models=(FAST,)).explain()

    assert explanation.verdict is Verdict.HEALTHY
    assert explanation.findings == ()
    assert (explanation.layer, explanation.reason) == (None, "")


def test_a_cause_that_hurts_is_degraded_on_its_layer() -> None:
    explanation = SyntheticTriton(models=(FAST, QUEUED)).explain()

    assert explanation.verdict is Verdict.DEGRADED
    assert explanation.layer is Layer.SERVING
    assert explanation.actionable[0].subject.model == "slow"


def test_a_queue_whose_cause_cannot_be_reported_is_no_clear_cause() -> None:
    explanation = SyntheticTriton(models=(QUEUED,)).without(BodyKind.CONFIG).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "slow" in explanation.reason
    assert explanation.symptoms[0].next_measurement
    assert not explanation.actionable


def test_a_queue_on_idle_instances_without_a_window_is_no_clear_cause() -> None:
    """A dispatch stall: no instance helps, so none is advised."""
    assert verdict(replace(QUEUED, execution=0.002)) is Verdict.NO_CLEAR_CAUSE


def test_few_requests_are_idle() -> None:
    explanation = SyntheticTriton(models=(replace(FAST, rate=0.2),)).explain()

    assert explanation.verdict is Verdict.IDLE
    assert "12 requests" in explanation.reason


def test_no_traffic_at_all_is_idle() -> None:
    assert verdict(replace(FAST, rate=0)) is Verdict.IDLE


def test_a_single_read_is_insufficient() -> None:
    explanation = SyntheticTriton(models=(FAST,)).explain(reads=1)

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert explanation.reason == "no counter was read twice"


def test_nothing_read_is_insufficient() -> None:
    assert explained(window_of([])).verdict is Verdict.INSUFFICIENT_DATA


def test_no_counters_are_insufficient() -> None:
    explanation = SyntheticTriton(models=(FAST,)).without(BodyKind.METRICS, BodyKind.STATISTICS).explain()

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert explanation.reason == "no model's counters could be read"


def test_without_durations_nothing_is_called_healthy() -> None:
    pages = [
        replace(one, body=b"\n".join(line for line in (one.body or b"").split(b"\n") if b"duration" not in line))
        for one in SyntheticTriton(models=(FAST,)).without(BodyKind.STATISTICS).scrapes()
        if one.kind is BodyKind.METRICS
    ]
    explanation = explained(window_of(pages))

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert "queue_seconds" in explanation.reason


def test_a_host_without_free_processors_is_never_healthy() -> None:
    explanation = SyntheticTriton(models=(FAST,), cpu_busy=0.97).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "97 %" in explanation.reason


def test_requests_that_their_callers_gave_up_are_no_errors_of_the_model() -> None:
    stage = replace(FAST, failing={"CANCELED": 5.0})

    assert verdict(stage) is Verdict.HEALTHY
    assert verdict(replace(FAST, failing={"BACKEND": 5.0})) is Verdict.DEGRADED


def test_failures_that_no_check_explains_are_never_healthy() -> None:
    """An ensemble fails and no member does, none is lost on its way."""
    chat = Stage("chat", rate=20, overhead=0.02, config=chain("chat", "fast"), failing={"OTHER": 4.0})
    explanation = SyntheticTriton(models=(chat, FAST)).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "chat fail" in explanation.reason


def test_requests_that_wait_inside_an_engine_are_never_healthy() -> None:
    own = 'model="llm",version="1"'
    gauges = [f'nv_trt_llm_request_metrics{{{own},request_type="waiting"}} 30']
    llm = Stage("llm", rate=5, execution=0.1, config=model_config("llm", backend="tensorrtllm"))
    explanation = SyntheticTriton(models=(llm,), extra_metrics=lambda _: gauges).explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "llm" in explanation.reason


def _with_engine(backend: str, **config: object) -> SyntheticTriton:
    """Return an ensemble of 2 s whose stages account for 0.3 s."""
    models = {"before": {}, "engine": {"backend": backend, **config}, "after": {}}
    stages = [Stage(name, rate=2, execution=0.1, config=model_config(name, **more)) for name, more in models.items()]  # type: ignore[arg-type]
    return SyntheticTriton(models=(*stages, Stage("whole", rate=2, overhead=2.0, config=chain("whole", *models))))


def test_most_of_the_time_between_stages_is_never_healthy_where_the_engine_is_seen_at_work() -> None:
    explanation = _with_engine("tensorrtllm").explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "1.7 s of 2 s where no stage says that it works" in explanation.reason
    assert "trace some requests" in explanation.symptoms[0].next_measurement


def test_time_that_a_decoupled_stage_works_unseen_is_no_sign_of_trouble() -> None:
    assert _with_engine("python", model_transaction_policy={"decoupled": True}).explain().verdict is Verdict.HEALTHY


def test_most_of_a_request_that_no_stage_accounts_for_is_never_healthy() -> None:
    """A Python stage may answer from its own thread; or requests wait where no counter shows it."""
    explanation = _with_engine("python").explain()

    assert explanation.verdict is Verdict.INSUFFICIENT_DATA
    assert "1.7 s of a request of whole, 85 %, is outside of what its models account for" in explanation.reason
    assert "--trace-config" in explanation.next_measurement


def test_a_hand_over_that_takes_little_is_healthy() -> None:
    chat = Stage("chat", rate=20, overhead=0.012, config=chain("chat", "fast"))

    assert SyntheticTriton(models=(chat, FAST)).explain().verdict is Verdict.HEALTHY


def test_requests_that_wait_while_none_completes_are_not_idle() -> None:
    """Counters move on completion: flat ones with requests pending are a stall, not an absence of traffic."""
    stuck = replace(FAST, pending=12)
    frozen = SyntheticTriton(models=(stuck,), alter=lambda _, rows: dict.fromkeys(rows, Counts(requests=900)))
    explanation = frozen.explain()

    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "12" in explanation.reason
    assert "fast" in explanation.reason


def test_what_the_collector_could_not_reach_is_a_blind_spot_first() -> None:
    gap = BlindSpot(what="metrics", why="port 8002 is closed", fix="open it")
    see = SyntheticTriton(models=(FAST,)).evidence()
    found = explain(see, WindowFacts(start=0, end=60, sources=("triton-0",)), blind_spots=(gap,))

    assert found.blind_spots[0] == gap


def test_a_log_whose_times_somebody_rewrote_without_an_offset_is_a_blind_spot() -> None:
    line = b"{} I 8447 model_lifecycle.cc:839] \"successfully loaded 'fast'\"\n"

    def spots(at: bytes) -> list[str]:
        log = Scrape(server=SERVER, kind=BodyKind.LOG, at=START, mono=START, body=line.replace(b"{}", at))
        found = explained(window_of([*SyntheticTriton(models=(FAST,)).scrapes(), log]))
        return [spot.what for spot in found.blind_spots if "log" in spot.what]

    assert spots(b"2026-11-27T21:12:54Z") == []
    assert spots(b"2026-11-27T21:12:54") == [f"when it was that the log of {SERVER} tells of"]


def test_a_blind_spot_says_how_to_see() -> None:
    explanation = SyntheticTriton(models=(FAST,), cpu_busy=None).explain()

    assert explanation.verdict is Verdict.HEALTHY
    assert any("--allow-cpu-metrics" in spot.fix for spot in explanation.blind_spots)
    assert [finding.check for finding in explanation.findings] == ["telemetry-blind-spot"]


class TestObjectives:
    """What a user wants of latency decides on top of what the tool thinks of it."""

    @pytest.mark.parametrize(
        ("text", "quantile", "seconds"),
        [
            ("mean < 1.5s", None, 1.5),
            ("p95<200ms", 0.95, 0.2),
            ("p99 <= 50 ms", 0.99, 0.05),
            ("p999 < 1s", 0.999, 1.0),
            ("p50 < 800us", 0.5, 0.0008),
        ],
    )
    def test_objectives_are_read_as_people_write_them(self, text: str, quantile: float | None, seconds: float) -> None:
        found = Objective.parse(text)

        assert found.quantile == quantile
        assert found.seconds == pytest.approx(seconds)

    @pytest.mark.parametrize("text", ["", "fast", "p95 > 200ms", "p95 < 200", "p95 < 1.2.3s", "p5 < 1s", "mean < -1s"])
    def test_what_is_no_objective_is_refused_in_one_line(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            Objective.parse(text)

        assert "\n" not in str(caught.value)

    def test_a_missed_mean_is_degraded(self) -> None:
        """An objective that is missed is what degraded means, whether or not a cause is found."""
        explanation = SyntheticTriton(models=(FAST,)).explain(objective=Objective.parse("mean < 5ms"))

        assert explanation.verdict is Verdict.DEGRADED
        assert "misses mean < 5ms" in explanation.reason

    def test_a_met_mean_changes_nothing(self) -> None:
        explanation = SyntheticTriton(models=(FAST,)).explain(objective=Objective.parse("mean < 50ms"))

        assert explanation.verdict is Verdict.HEALTHY

    def test_a_quantile_that_the_server_does_not_export_is_stated_to_be_unknown(self) -> None:
        explanation = SyntheticTriton(models=(FAST,)).explain(objective=Objective.parse("p95 < 5ms"))

        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
        assert "unknown" in explanation.reason
        assert "summary_latencies" in explanation.symptoms[0].next_measurement
