from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from diagnostics.signals.callers import (
    CALLER_SECONDS,
    HANDLING_SECONDS,
    MISSED_READS,
    OUTSIDE_SECONDS,
    PORT_LAG,
    TRANSFER_SECONDS,
)
from diagnostics.signals.gaps import OVERHEAD_SECONDS
from diagnostics.signals.inner_calls import FILLABLE_SHARE, NESTED_SHARE, NESTED_WAIT
from diagnostics.signals.orchestration import (
    DIRECT_CALLS,
    ENSEMBLE_CALLS,
    HOP_SECONDS,
    LOCKSTEP_GAP,
    WRAPPED,
    client_seconds,
)
from diagnostics.signals.signal import Missing
from diagnostics.signals.traces import BLOCKED_SECONDS, TRACED_SHARE
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Stage, SyntheticTriton, chain, model_config, view_of
from tests.builders_traces import Json, Leg, call, ensemble_trace, export, exported, span, trace_id


def seen(triton: SyntheticTriton, model: str, *bodies: bytes, clients: Sequence[Json] = ()) -> ModelView:
    scrapes: list[Scrape] = [*triton.scrapes(), *map(exported, bodies)]
    if clients:
        lines = "\n".join(map(json.dumps, clients)).encode()
        scrapes.append(Scrape(server="", kind=BodyKind.CLIENT, at=START, mono=START, body=lines))
    return view_of(window_of(scrapes), model, None)


def calls(leg: Leg, times: Iterable[float]) -> bytes:
    return export(span for number, at in enumerate(times) for span in call(trace_id(number), leg, at))


SAFETY = Stage("safety", rate=1.0, execution=0.5, config=model_config("safety"))
EVERY_SECOND = [float(n) for n in range(59)]


def test_every_request_traced_shows_how_long_it_waits_beside_a_free_instance() -> None:
    view = seen(
        SyntheticTriton(models=(SAFETY,)), "safety", calls(Leg(model="safety", queue=0.2, compute=0.5), EVERY_SECOND)
    )

    assert TRACED_SHARE.read(view).value == pytest.approx(59 / 60)
    blocked = BLOCKED_SECONDS.read(view)
    assert blocked.value == pytest.approx(0.2)


def test_a_wait_for_a_busy_instance_is_not_blocked() -> None:
    # Each request comes 0.1 s after the one before and waits until that has run.
    bodies = [
        calls(Leg(model="safety", compute=0.5), EVERY_SECOND),
        export(
            s
            for n, at in enumerate(EVERY_SECOND)
            for s in call(trace_id(1000 + n), Leg(model="safety", queue=0.4, compute=0.3), at + 0.1)
        ),
    ]
    view = seen(SyntheticTriton(models=(replace(SAFETY, rate=2.0),)), "safety", *bodies)

    assert BLOCKED_SECONDS.read(view).value == pytest.approx(0.0, abs=1e-6)


def test_a_batching_window_is_no_block() -> None:
    config = model_config("safety", batching={"max_queue_delay_microseconds": 200_000})
    view = seen(
        SyntheticTriton(models=(replace(SAFETY, config=config),)),
        "safety",
        calls(Leg(model="safety", queue=0.2, compute=0.5), EVERY_SECOND),
    )

    assert BLOCKED_SECONDS.read(view).value == pytest.approx(0.0, abs=1e-6)


def limited(limit: int) -> dict[str, object]:
    return model_config("safety", batching={"default_queue_policy": {"max_queue_size": limit}})


def test_a_sample_shows_waits_that_a_full_queue_cannot_explain() -> None:
    triton = SyntheticTriton(models=(replace(SAFETY, rate=10.0, execution=0.02, config=limited(4)),))
    stalled, quick = Leg(model="safety", queue=0.5, compute=0.02), Leg(model="safety", queue=0.1, compute=0.02)
    times = EVERY_SECOND[:30]
    view = seen(
        triton,
        "safety",
        calls(quick, times),
        export(s for n, at in enumerate(times) for s in call(trace_id(100 + n), stalled, at + 0.3)),
    )

    # Four waiting, one under way and one taken out of the queue already: 6 × 20 ms explain 120 ms of the 500.
    assert BLOCKED_SECONDS.read(view).value == pytest.approx((0.5 - 0.12) / 2)


def test_a_sample_without_a_queue_limit_tells_no_block() -> None:
    triton = SyntheticTriton(models=(replace(SAFETY, rate=10.0, execution=0.02),))
    view = seen(triton, "safety", calls(Leg(model="safety", queue=0.5, compute=0.02), EVERY_SECOND))

    assert BLOCKED_SECONDS.read(view).missing is Missing.TOO_FEW_EVENTS


def test_without_traces_a_block_is_not_exported() -> None:
    view = seen(SyntheticTriton(models=(SAFETY,)), "safety")

    assert BLOCKED_SECONDS.read(view).missing is Missing.NOT_EXPORTED


def test_calls_inside_an_execution_are_its_nested_share_once_however_many_run_beside_each_other() -> None:
    wrapper = Leg(
        model="wrapper",
        compute=0.1,
        below=(Leg(model="a", queue=0.01, compute=0.04, starts=0.0), Leg(model="b", compute=0.05, starts=0.02)),
    )
    view = seen(
        SyntheticTriton(models=(Stage("wrapper", rate=1.0, config=model_config("wrapper")),)),
        "wrapper",
        calls(wrapper, EVERY_SECOND),
    )

    assert NESTED_SHARE.read(view).value == pytest.approx(0.7)
    assert NESTED_WAIT.read(view).value == pytest.approx(0.01 / 0.1)


def test_a_called_engine_is_at_work_until_its_caller_goes_on() -> None:
    """Its span takes 1 ms; then 69 ms pass until the next call, which takes 10 of the last 30 ms."""
    calling = Leg(
        model="wrapper",
        compute=0.1,
        below=(Leg(model="llm", compute=0.001, starts=0.0), Leg(model="b", compute=0.01, starts=0.07)),
    )
    models = [Stage(name, rate=1.0, config=model_config(name)) for name in ("wrapper", "b")]
    engine = Stage("llm", rate=1.0, config=model_config("llm", model_transaction_policy={"decoupled": True}))
    view = seen(SyntheticTriton(models=(*models, engine)), "wrapper", calls(calling, EVERY_SECOND))

    share = NESTED_SHARE.read(view)
    assert share.value == pytest.approx(0.8)
    assert (share.low, share.estimated) == (pytest.approx(0.11), True)
    assert share.high == pytest.approx(1.0)  # so may the other one be, which is a Python model


@pytest.mark.parametrize(("rate", "share"), [(10.0, 0.6), (20.0, 1.0), (13.0, 0.0)])
def test_models_that_are_called_in_step_might_be_called_from_inside(rate: float, share: float) -> None:
    """Executions of 100 ms, beside one or two of 60 ms each; or beside another's traffic."""
    triton = SyntheticTriton(
        models=(
            Stage("wrapper", rate=10.0, execution=0.1, config=model_config("wrapper")),
            Stage("other", rate=rate, execution=0.06, config=model_config("other")),
        ),
        before=0.0,
    )

    assert FILLABLE_SHARE.read(seen(triton, "wrapper")).value == pytest.approx(share, abs=0.02)


CHAT = chain("chat", "tokenizer", "safety")


def by_hand(tokenizer: float = 10.0, safety: float = 10.0, chat: float = 0.0, *more: Stage) -> SyntheticTriton:
    return SyntheticTriton(
        models=(
            Stage("chat", rate=chat, config=CHAT),
            Stage("tokenizer", rate=tokenizer, execution=0.002, config=model_config("tokenizer")),
            Stage("safety", rate=safety, execution=0.02, config=model_config("safety")),
            *more,
        ),
        before=0.0,
    )


def test_members_called_in_step_while_the_ensemble_idles_never_part() -> None:
    view = seen(by_hand(), "chat")

    assert ENSEMBLE_CALLS.read(view).value == 0
    assert DIRECT_CALLS.read(view).value == pytest.approx(600)
    assert LOCKSTEP_GAP.read(view).value == pytest.approx(0.0)


def test_members_called_at_different_rates_part() -> None:
    apart = LOCKSTEP_GAP.read(seen(by_hand(tokenizer=11.0), "chat"))

    assert apart.value == pytest.approx(60 / (2 * 600) ** 0.5)


def test_calls_that_the_ensemble_makes_are_not_direct() -> None:
    assert DIRECT_CALLS.read(seen(by_hand(chat=10.0), "chat")).value == pytest.approx(0.0)


def test_failed_requests_of_an_ensemble_are_requests_and_count_once() -> None:
    triton = by_hand()
    failing = replace(triton.models[0], failing={"OTHER": 20.0})

    assert ENSEMBLE_CALLS.read(
        seen(replace(triton, models=(failing, *triton.models[1:])), "chat")
    ).value == pytest.approx(600)


@pytest.mark.parametrize(("rate", "wrapped"), [(10.0, 1), (3.0, 0)])
def test_a_model_that_is_called_in_step_with_the_members_may_call_them(rate: float, wrapped: int) -> None:
    view = seen(by_hand(10.0, 10.0, 0.0, Stage("bls", rate=rate, execution=0.03)), "chat")

    assert WRAPPED.read(view).value == wrapped


def client(at: float, seconds: float, model: str = "chat") -> Json:
    return {"t": START + at, "model": model, "ms": seconds * 1e3, "ok": True, "code": 200}


def test_hops_are_what_clients_take_beyond_the_members() -> None:
    view = seen(by_hand(), "chat", clients=[client(n * 0.1, 0.08) for n in range(590)])

    assert HOP_SECONDS.read(view).value == pytest.approx(0.08 - 0.022, rel=0.01)


def test_hops_are_the_gaps_between_the_calls_of_a_trace() -> None:
    spans: list[Json] = []
    for n in range(40):
        spans += call(trace_id(n), Leg(model="tokenizer", compute=0.002), float(n), parent="shell")
        spans += call(trace_id(n), Leg(model="safety", compute=0.02), n + 0.05, parent="shell")
    view = seen(by_hand(), "chat", export(spans))

    assert HOP_SECONDS.read(view).value == pytest.approx(0.048)


def test_hops_are_unknown_when_only_counters_are_there() -> None:
    assert HOP_SECONDS.read(seen(by_hand(), "chat")).missing is Missing.NOT_EXPORTED


BUSY = SyntheticTriton(models=(Stage("safety", rate=20.0, execution=0.02, config=model_config("safety")),))


def test_time_outside_is_the_clients_beyond_the_servers() -> None:
    view = seen(BUSY, "safety", clients=[client(n * 0.05, 0.07, "safety") for n in range(1200)])

    assert client_seconds(view).value == pytest.approx(0.07)
    assert OUTSIDE_SECONDS.read(view).value == pytest.approx(0.05, rel=0.01)


def test_clients_that_count_other_requests_conflict() -> None:
    view = seen(BUSY, "safety", clients=[client(n * 0.1, 0.07, "safety") for n in range(600)])

    assert OUTSIDE_SECONDS.read(view).missing is Missing.CONFLICTING


def test_one_slow_piece_does_not_move_the_time_outside() -> None:
    slow = [client(n * 0.05, 0.5 if 100 <= n < 140 else 0.07, "safety") for n in range(1200)]

    assert OUTSIDE_SECONDS.read(seen(BUSY, "safety", clients=slow)).value == pytest.approx(0.05, rel=0.02)


def test_a_calling_span_tells_the_time_outside_whatever_its_clock_says() -> None:
    spans, outside = [], []
    for n in range(20):
        spans += call(trace_id(n), Leg(model="safety", compute=0.02), float(n), parent=f"c{n}")
        outside.append(span(trace_id(n), f"c{n}", "POST", 100.0 + n, 100.05 + n, kind=3))
    view = seen(BUSY, "safety", export(spans), export(outside, service="gateway"))

    assert OUTSIDE_SECONDS.read(view).value == pytest.approx(0.03)


def test_a_services_own_time_is_its_span_without_its_call() -> None:
    spans, shells = [], []
    for n in range(20):
        spans += call(trace_id(n), Leg(model="safety", compute=0.02), n + 0.1, parent=f"s{n}")
        shells.append(span(trace_id(n), f"s{n}", "POST /chat", float(n), n + 0.5))
    view = seen(BUSY, "safety", export(spans), export(shells, service="gateway"))

    assert CALLER_SECONDS.read(view).value == pytest.approx(0.48)


def test_the_frontend_holds_what_passes_between_reading_and_the_model() -> None:
    spans = [s for n in range(20) for s in call(trace_id(n), Leg(model="safety", compute=0.02), float(n), front=0.012)]
    view = seen(BUSY, "safety", export(spans))

    assert HANDLING_SECONDS.read(view).value == pytest.approx(0.012)
    assert TRANSFER_SECONDS.read(view).value == pytest.approx(0.0)


def test_reads_that_the_inference_port_did_not_answer_are_missed() -> None:
    scrapes = BUSY.scrapes(reads=20)
    statistics = [scrape for scrape in scrapes if scrape.kind is BodyKind.STATISTICS]
    kept = [scrape for scrape in scrapes if scrape not in statistics[5:10]]

    assert MISSED_READS.read(view_of(window_of(kept), "safety", None)).value == pytest.approx(0.25)


def stages(gap: float, backend: str) -> tuple[SyntheticTriton, bytes]:
    legs = (Leg(model="tokenizer", compute=0.002), Leg(model="safety", compute=0.02, gap=gap))
    configs = {name: model_config(name, backend=backend) for name in ("tokenizer", "safety")}
    triton = SyntheticTriton(
        models=(
            Stage("chat", rate=10.0, overhead=0.022 + gap, config=CHAT),
            *(Stage(name, rate=10.0, execution=0.01, config=config) for name, config in configs.items()),
        )
    )
    return triton, export(s for n in range(40) for s in ensemble_trace(trace_id(n), float(n), legs))


def test_a_gap_between_stages_is_overhead_where_no_stage_can_hide_in_it() -> None:
    triton, body = stages(0.03, "onnxruntime")

    assert OVERHEAD_SECONDS.read(seen(triton, "chat", body)).value == pytest.approx(0.03, abs=1e-4)


def test_a_gap_behind_a_python_stage_may_be_its_own_work() -> None:
    triton, body = stages(0.03, "python")

    assert OVERHEAD_SECONDS.read(seen(triton, "chat", body)).value == pytest.approx(0.0, abs=1e-4)


def test_counters_alone_show_overhead_where_no_stage_can_hide_time() -> None:
    triton, _ = stages(0.03, "onnxruntime")

    overhead = OVERHEAD_SECONDS.read(seen(triton, "chat"))
    assert overhead.value == pytest.approx(0.032, abs=1e-4)
    assert overhead.estimated


def test_counters_alone_show_no_overhead_of_python_stages() -> None:
    triton, _ = stages(0.03, "python")

    assert OVERHEAD_SECONDS.read(seen(triton, "chat")).missing is Missing.NOT_EXPORTED


def lagging(*lags: float) -> ModelView:
    """Return a server whose reads of the inference port end so much later than those of the metrics port."""
    scrapes = [
        replace(one, at=one.at + lags[round((one.at - START) / 5) % len(lags)])
        if one.kind is BodyKind.STATISTICS
        else one
        for one in SyntheticTriton(models=(SAFETY,)).scrapes()
    ]
    return view_of(window_of(scrapes), None, None)


def test_a_frontend_that_is_short_of_threads_keeps_reads_of_its_port_waiting() -> None:
    assert PORT_LAG.read(lagging(0.05, 0.06, 0.07)).value == pytest.approx(0.06)
    assert PORT_LAG.read(lagging(-0.003, 0.001, -0.001)).value == 0


def test_one_slow_read_is_no_slow_port() -> None:
    assert PORT_LAG.read(lagging(0.001, 0.001, 0.001, 0.9)).value == pytest.approx(0.001)


def test_rounds_with_one_time_say_nothing_of_the_port() -> None:
    assert PORT_LAG.read(lagging(0.0)).missing is Missing.NOT_EXPORTED
