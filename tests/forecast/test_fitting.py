from __future__ import annotations

import pytest

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.signals.signal import Subject
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import SERVER, Stage, SyntheticTriton, ensemble_config, model_config
from tests.builders_traces import Leg, ensemble_trace, export, exported, trace_id
from tests.builders_traffic import sent
from tests.forecast.deployments import CHAT, plain, synthetic

GPUS = {"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}


def test_the_model_is_the_servers_own_account() -> None:
    config = model_config(
        "embedder",
        groups=(GPUS,),
        max_batch=8,
        batching={"max_queue_delay_microseconds": 500, "preferred_batch_size": [8], "preserve_ordering": True},
    )
    fitted = synthetic(plain("tokenizer", seconds=0.001), plain("embedder", seconds=0.02, config=config, queue=0.0006))
    tokenizer, embedder = fitted.scenario.models

    assert [step.after for step in fitted.scenario.entries[0].steps] == [(), (0,)]
    assert embedder.instances == 4
    assert fitted.devices["embedder"] == (2,)
    assert embedder.batcher
    assert embedder.batcher.delay_seconds == 0.0005
    assert embedder.batcher.preserve_ordering
    assert tokenizer.service.time(1) == pytest.approx(0.001, rel=1e-6)
    assert fitted.measured.mean == pytest.approx(0.0236, rel=1e-3)


def test_what_no_trace_shows_of_several_stages_is_stated_of_them_once() -> None:
    fitted = synthetic(plain("tokenizer", seconds=0.001), plain("embedder", seconds=0.02))
    untraced = [stated for stated in fitted.assumptions if "no trace shows" in stated]
    assert len(untraced) == 1
    assert untraced[0].startswith("executions of tokenizer, embedder vary")


def test_time_that_no_stage_accounts_for_passes_before_the_first_step() -> None:
    first, last = synthetic(plain("a"), plain("b")).scenario.entries[0].steps

    assert first.gap_seconds == pytest.approx(0.002, rel=1e-3)
    assert last.gap_seconds == last.tail_seconds == 0


def test_branches_start_together_and_join() -> None:
    wired = ensemble_config(
        "chat", ("a", ("in",), ("x",)), ("b", ("x",), ("y",)), ("c", ("x",), ("z",)), ("d", ("y", "z"), ("out",))
    )
    stages = tuple(plain(name) for name in "abcd")
    chat = Stage("chat", rate=20, overhead=0.062, config=wired)
    fitted = fit(SyntheticTriton(models=(chat, *stages)).evidence(), CHAT)

    assert [step.after for step in fitted.scenario.entries[0].steps] == [(), (0,), (0,), (1, 2)]


def test_without_traces_arrivals_are_an_open_process_of_the_measured_rate_and_executions_vary_within_bounds() -> None:
    fitted = synthetic(plain("a", rate=20, pending_growth=0.5))
    (traffic,) = fitted.scenario.traffic

    assert isinstance(traffic, OpenLoop)
    assert traffic.rate == pytest.approx(20.5, rel=1e-3)  # what waits more and more arrived, too
    assert fitted.doubt.models["a"].service_scv == (0.01, 0.36)
    assert any("no trace shows" in stated for stated in fitted.assumptions)


def test_where_every_request_was_traced_its_arrivals_are_replayed_and_executions_vary_as_they_did() -> None:
    triton = SyntheticTriton(
        models=(Stage("m", rate=2.0, execution=0.02, overhead=0.001, config=model_config("m")),), interval=5.0
    )
    starts = [1 + i * 0.5 + (i % 2) * 0.1 for i in range(118)]
    ensemble = Stage("chat", rate=2.0, overhead=0.021, config=ensemble_config("chat", ("m", ("in",), ("out",))))
    legs = [Leg(model="m", compute=0.015 if i % 2 else 0.025) for i in range(118)]
    spans = [one for i, at in enumerate(starts) for one in ensemble_trace(trace_id(i), at, [legs[i]])]
    scrapes = [*SyntheticTriton(models=(*triton.models, ensemble)).scrapes(), exported(export(spans), at=60.0)]
    fitted = fit(WindowEvidence(window_of(scrapes)), CHAT)
    (traffic,) = fitted.scenario.traffic

    assert isinstance(traffic, OpenLoop)
    assert traffic.times is not None
    assert len(traffic.times) == 118
    assert traffic.times[:3] == pytest.approx([0, 0.6, 1.0], abs=1e-6)
    assert fitted.doubt.replayed == {"chat"}
    assert fitted.scenario.models[0].service_scv == pytest.approx((0.005 / 0.02) ** 2, rel=0.1)


def test_a_constant_number_under_way_is_a_closed_loop_with_the_thinking_that_is_left() -> None:
    two = model_config("m", groups=({"kind": "KIND_CPU", "count": 2},))
    triton = SyntheticTriton(models=(Stage("m", rate=20, execution=0.09, config=two),))
    starts = [i * 0.1 for i in range(600)]
    scrapes = [*triton.scrapes(), sent(sorted(starts * 2), seconds=0.0995, model="m")]
    (traffic,) = fit(WindowEvidence(window_of(scrapes)), Subject(server=SERVER, model="m")).scenario.traffic

    assert isinstance(traffic, ClosedLoop)
    assert traffic.clients == 2
    assert traffic.think_seconds == pytest.approx(0.01, abs=1e-4)


def gauges(number: int) -> list[str]:
    """Return what an engine tells at a read: 100 iterations a second, 3 requests at a time."""
    own = 'model="llm",version="1"'
    return [
        *(
            f'nv_trt_llm_request_metrics{{{own},request_type="{kind}"}} {value}'
            for kind, value in (("waiting", 0), ("active", 3), ("scheduled", 3), ("max", 32))
        ),
        f'nv_trt_llm_general_metrics{{{own},general_type="iteration_counter"}} {number * 500}',
        *(
            f'nv_trt_llm_kv_cache_block_metrics{{{own},kv_cache_block_type="{kind}"}} {value}'
            for kind, value in (("max", 100), ("used", 12), ("free", 88), ("tokens_per", 64))
        ),
    ]


def test_an_engines_gauges_make_its_iterations() -> None:
    # 20/s for 160 ms: 3.2 at a time, of 100 iterations per second, 16 each.
    stage = plain("llm", seconds=0.16, config=model_config("llm", backend="tensorrtllm", max_batch=64))
    fitted = synthetic(stage, extra_metrics=gauges)
    engine = fitted.scenario.models[0].engine

    assert engine
    assert engine.slots == 32
    assert engine.iterations == pytest.approx(15.5, rel=0.05)
    whole = engine.iteration_seconds + 3.2 * engine.iteration_seconds_per_request
    assert whole == pytest.approx(0.01, rel=0.05)
    assert engine.cache_tokens == 6400
    assert engine.tokens_per_request == pytest.approx(256)


def test_an_engine_that_clients_in_a_closed_loop_call_is_fitted_to_their_measured_rate() -> None:
    stage = plain("llm", seconds=0.16, config=model_config("llm", backend="tensorrtllm", max_batch=64))
    triton = SyntheticTriton(models=(stage,), extra_metrics=gauges)
    calls = sent([i * 0.05 for i in range(1200)], seconds=0.1995, model="llm")
    fitted = fit(WindowEvidence(window_of([*triton.scrapes(), calls])), Subject(server=SERVER, model="llm"))
    (traffic,) = fitted.scenario.traffic

    assert isinstance(traffic, ClosedLoop)
    assert fitted.scenario.models[0].engine
    assert fitted.scenario.models[0].engine.slots == 32


def test_what_cannot_be_forecast_says_why_and_what_to_measure() -> None:
    idle = SyntheticTriton(models=(plain("m", rate=0.0),)).evidence()
    with pytest.raises(Unpredictable, match=r"m: no request was completed.*read a window in which requests come"):
        fit(idle, Subject(server=SERVER, model="m"))

    batched = plain("m", batches={4: 1.0}, client_batch=1)
    blind = SyntheticTriton(models=(batched,)).without(BodyKind.STATISTICS).evidence()
    with pytest.raises(Unpredictable, match=r"model m: no execution's time was read.*v2/models/stats"):
        fit(blind, Subject(server=SERVER, model="m"))

    unread = SyntheticTriton(models=(plain("m"),)).without(BodyKind.CONFIG).evidence()
    with pytest.raises(Unpredictable, match="its configuration was not read"):
        fit(unread, Subject(server=SERVER, model="m"))

    sequential = plain("m", config=model_config("m", sequence_batching={"max_sequence_idle_microseconds": 5}))
    with pytest.raises(Unpredictable, match="sequence batcher"):
        fit(SyntheticTriton(models=(sequential,)).evidence(), Subject(server=SERVER, model="m"))
