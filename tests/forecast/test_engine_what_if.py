"""What-if of an engine that is served by itself: fitted to its pages, against the engine that wrote them."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from statistics import fmean

import pytest

from diagnostics.diagnosis.proposing import ChangeRequest, proposed, swept
from diagnostics.errors import UsageError
from diagnostics.forecast import engine_fit
from diagnostics.forecast.engine_loop import EngineLimits, EngineLoad, IterationCost, TokenCount, simulate_engine
from diagnostics.forecast.engine_window import MeasuredEngine, shown_part
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.performance import EngineLatency
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.forecast.json import forecast_report
from diagnostics.render.text import as_text
from diagnostics.signals.engine_history import EngineHistory, EngineStep
from diagnostics.signals.signal import Scope
from diagnostics.wire.engine import EngineSample
from tests.forecast.engine_pages import served

COST = IterationCost(base=0.012, per_held=2.4e-6, per_token=0.00006)
LIMITS = EngineLimits(slots=8, cache_tokens=16_000, block_tokens=16)
LOAD = EngineLoad(prompt=TokenCount(mean=300, scv=0.3), answer=TokenCount(mean=80, scv=0.3), rate=4.0)
LONGER = replace(LOAD, prompt=TokenCount(mean=600, scv=0.3), rate=2.0)
# Within which a prediction has to lie, of the truth.
GOAL = 0.15


def truth(limits: EngineLimits, load: EngineLoad) -> dict[str, float]:
    """Return what the engine does in the long run."""
    run = simulate_engine(limits, COST, load, seconds=1_500, warmup=50, seed=99)
    ended = [one for one in run.requests if run.begin <= one.ended < run.end]
    return {
        "first_token": fmean(one.first - one.came for one in ended),
        "per_token": sum(one.ended - one.first for one in ended) / sum(one.answer - 1 for one in ended),
        "latency": fmean(one.ended - one.came for one in ended),
    }


def predicted(request: ChangeRequest, load: EngineLoad = LOAD, limits: EngineLimits = LIMITS) -> dict[str, float]:
    found = proposed(served(limits, COST, load), request).forecast.predicted
    assert found.engine is not None
    assert found.mean is not None
    assert found.engine.first_token is not None
    assert found.engine.per_token is not None
    return {
        "first_token": found.engine.first_token.value,
        "per_token": found.engine.per_token.value,
        "latency": found.mean.value,
    }


@pytest.mark.parametrize(
    ("request_", "limits", "load"),
    [
        (ChangeRequest(settings=("m.engine.max_batch_size=32",)), replace(LIMITS, slots=32), LOAD),
        (ChangeRequest(rate="0.5x"), LIMITS, replace(LOAD, rate=2.0)),
        (ChangeRequest(prompt_tokens="2x", rate="0.5x"), LIMITS, LONGER),
        (ChangeRequest(output_tokens="40"), LIMITS, replace(LOAD, answer=TokenCount(mean=40, scv=0.3))),
    ],
    ids=["slots", "rate", "prompts", "answers"],
)
def test_a_change_of_an_open_loop_does_what_is_predicted(
    request_: ChangeRequest, limits: EngineLimits, load: EngineLoad
) -> None:
    assert predicted(request_) == pytest.approx(truth(limits, load), rel=GOAL)


CLIENTS = replace(LOAD, rate=0.0, clients=24)


def test_clients_that_wait_for_slots_are_foreseen_from_an_open_loop() -> None:
    request = ChangeRequest(settings=("engine.max-num-seqs=16",), clients=24)

    assert predicted(request) == pytest.approx(truth(replace(LIMITS, slots=16), CLIENTS), rel=GOAL)


def test_many_clients_wait_for_each_other() -> None:
    found = predicted(ChangeRequest(clients=200))

    # Little's law: all of them are inside all the time.
    carried = proposed(served(LIMITS, COST, LOAD), ChangeRequest(clients=200)).forecast.predicted.throughput.value
    assert found["latency"] == pytest.approx(200 / carried, rel=0.03)


def test_clients_that_would_wait_longer_than_callers_do_are_refused() -> None:
    with pytest.raises(Unpredictable, match="callers time out before") as caught:
        predicted(ChangeRequest(clients=100_000))

    assert "at most" in caught.value.hint


def test_an_engine_that_puts_requests_back_is_not_predicted() -> None:
    small = replace(LIMITS, slots=inf, cache_tokens=190 * 16)
    with pytest.raises(Unpredictable, match="its KV cache fills") as caught:
        predicted(ChangeRequest(rate="1.5x"), LOAD, small)

    assert "fewer requests" in caught.value.hint


def test_a_token_budget_makes_prompts_wait_as_predicted() -> None:
    load = replace(LOAD, prompt=TokenCount(mean=600, scv=0.3), rate=2.0)
    found = predicted(ChangeRequest(settings=("engine.max_num_batched_tokens=256",)), load, replace(LIMITS, slots=inf))

    budget = replace(LIMITS, slots=inf, token_budget=256)
    assert found == pytest.approx(truth(budget, load), rel=GOAL)


def test_what_a_token_of_a_prompt_costs_leaves_out_the_iterations_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(LIMITS, slots=inf, token_budget=128)
    seen = served(small, COST, LONGER)
    (on,) = (one for one in seen.evidence.subjects(Scope.MODEL) if seen.evidence.is_engine(one))

    def cost(limits: EngineLimits) -> float:
        monkeypatch.setattr(engine_fit, "limits_of_engine", lambda *_: (limits, [], True))
        return engine_fit.fit_loop(seen.evidence, on).cost.per_token

    assert COST.per_token <= cost(small) < 2 * COST.per_token < cost(replace(small, token_budget=inf))


def test_a_load_beyond_what_it_carries_has_no_number() -> None:
    found = proposed(served(LIMITS, COST, LOAD), ChangeRequest(rate="4x"))

    assert found.forecast.predicted.mean is None
    assert not found.forecast.predicted.stable
    assert "cannot keep up" in as_text(forecast_document(found))


def test_a_sweep_knows_the_value_in_effect() -> None:
    found = swept(served(LIMITS, COST, LOAD), ChangeRequest(), "engine.max_num_seqs=4,8,16")

    assert found.sweep.name == "m.engine.max_batch_size"
    assert found.sweep.now == 1
    means = [point.performance.mean for point in found.sweep.points]
    assert means[2] is not None
    assert means[0] is None or means[0].value > means[2].value


def test_every_number_has_an_interval_and_is_said_to_be_an_estimate() -> None:
    found = proposed(served(LIMITS, COST, LOAD), ChangeRequest(settings=("engine.max_num_seqs=16",)))
    engine = forecast_report(found)["predicted"]["engine"]

    assert engine["estimated"] is True
    for name in ("per_token_seconds", "queue_seconds", "running", "kv_cache_share"):
        low, high = engine[name]["interval90"]
        assert low <= engine[name]["value"] <= high
    assert "estimated" in as_text(forecast_document(found))
    assert isinstance(found.forecast.predicted.engine, EngineLatency)


def test_iterations_that_are_not_read_predict_nothing() -> None:
    with pytest.raises(Unpredictable, match="how long its iterations take was not read") as caught:
        proposed(served(LIMITS, COST, LOAD, tokens=False), ChangeRequest(rate="2x"))

    assert "inter-token latency" in caught.value.hint


def test_more_requests_at_once_than_were_seen_are_refused_where_what_they_cost_was_not() -> None:
    with pytest.raises(Unpredictable, match="ran at every read") as caught:
        predicted(ChangeRequest(settings=("engine.max_num_seqs=8",)), CLIENTS, replace(LIMITS, slots=4))

    assert "diag bench" in caught.value.hint


@pytest.mark.parametrize("given", ["gpu-memory-utilization=0.95", "num_gpu_blocks_override=500", "max-total-tokens=9"])
def test_another_size_of_the_cache_is_refused_with_what_to_do_instead(given: str) -> None:
    with pytest.raises(Unpredictable, match="is not predicted") as caught:
        predicted(ChangeRequest(settings=(f"engine.{given}",)))

    assert "diag diff" in caught.value.hint


def test_parts_of_a_prompt_are_not_predicted_without_a_token_budget() -> None:
    with pytest.raises(Unpredictable, match="how long the parts of a prompt are"):
        predicted(ChangeRequest(settings=("engine.enable_chunked_prefill=true",)))


def test_prompts_beyond_the_token_budget_that_are_not_read_in_parts_are_refused() -> None:
    settings = ("engine.enable_chunked_prefill=false", "engine.max_num_batched_tokens=128")
    with pytest.raises(Unpredictable, match="do not fit into 128"):
        predicted(ChangeRequest(settings=settings))


@pytest.mark.parametrize("path", ["instance_group.count=2", "engine.max_beam_width=2"])
def test_a_setting_that_the_server_does_not_have_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="has no setting"):
        predicted(ChangeRequest(settings=(f"m.{path}",)))


def test_lengths_are_of_engines_alone_and_have_to_be_read() -> None:
    with pytest.raises(UsageError, match="cannot read the length"):
        predicted(ChangeRequest(prompt_tokens="long"))


def width(request: ChangeRequest) -> float:
    """Return by which factor the ends of the interval of a token's time differ."""
    found = proposed(served(replace(LIMITS, cache_tokens=64_000), COST, LOAD), request).forecast.predicted.engine
    assert found is not None
    assert found.per_token is not None
    assert found.per_token.high is not None
    return found.per_token.high / found.per_token.low


def test_an_interval_is_wider_for_more_requests_than_ran_in_the_window() -> None:
    near, far = (width(ChangeRequest(settings=("engine.max_num_seqs=64",), rate=rate)) for rate in ("1.1x", "2x"))

    # Two servers of one engine differ by 10 % each (BETWEEN_SERVERS): 90 % of pairs are within 1.26 on either side.
    assert near > 1.26**2
    assert 1.3 * near < far < 3 * near


def history(lasts: float, stretch: float = 1.0) -> tuple[EngineHistory, MeasuredEngine]:
    """Return counted iterations of an engine whose requests last so many seconds."""
    gauges = EngineSample(at=0.0, scheduled=4.0, waiting=0.0)
    none = dict.fromkeys(field.name for field in fields(EngineStep))
    steps = tuple(
        EngineStep(
            **{
                **none,
                "start": at,
                "end": at + stretch,
                "ended": 1.0,
                "iterations": 9.0,
                "before": gauges,
                "after": gauges,
            }
        )
        for at in (0.0, stretch)
    )
    nothing = dict.fromkeys(field.name for field in fields(EngineHistory))
    measured = dict.fromkeys((field.name for field in fields(MeasuredEngine)), None)
    return (
        EngineHistory(**{**nothing, "steps": steps}),
        MeasuredEngine(**{**measured, "running": 4.0, "throughput": 4.0 / lasts, "span": 2 * stretch}),
    )


@pytest.mark.parametrize(("lasts", "shown"), [(0.5, 0.5), (0.9, 0.9), (3.0, 1.0), (0.01, 0.1)])
def test_the_ends_of_a_stretch_show_as_much_of_it_as_a_request_lasts(lasts: float, shown: float) -> None:
    assert shown_part(*history(lasts)) == pytest.approx(shown)
