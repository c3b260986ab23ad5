from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.errors import UsageError
from diagnostics.forecast.entry_model import SchedulerModel
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.what_if import WhatIf, changed, doubt
from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.simulation.scenario import ClosedLoop, DynamicBatcher, EngineModel, Model, OpenLoop
from diagnostics.wire.model_config import parse_model_config
from tests.builders import model_config
from tests.forecast.deployments import by_hand, change, service

SAFETY = Model(name="safety", service=service(0.02), max_batch=8)
LLM = Model(
    name="llm",
    service=service(0.0003),
    engine=EngineModel(
        slots=32, prefill_seconds=0.002, iteration_seconds=0.006, cache_tokens=1000.0, tokens_per_request=9.0
    ),
)


LIMIT: dict[str, SettingValue] = {"dynamic_batching__default_queue_policy__max_queue_size": 4}


def after(model: Model, **settings: SettingValue) -> Model:
    made = {path.replace("__", "."): value for path, value in settings.items()}
    return changed(by_hand(model), WhatIf(changes=(change(model.name, made),))).scenario.models[0]


def test_a_count_is_of_each_device_of_each_group() -> None:
    fitted = replace(by_hand(SAFETY), devices={"safety": (2, 1)})
    made = changed(fitted, WhatIf(changes=(change("safety", {"instance_group.count": 3}),)))

    assert made.scenario.models[0].instances == 9
    assert any("room for 9 instances" in stated for stated in made.assumptions)


def test_more_instances_on_a_full_device_are_doubted_and_what_was_left_is_stated() -> None:
    three = change("safety", {"instance_group.count": 3})
    full, free = (replace(by_hand(SAFETY), headroom={"safety": left}) for left in (0.09, 0.83))

    assert doubt(full, (three,)) == "the device under safety is full (9 % left): more instances would only share it"
    assert doubt(full, (change("safety", {"instance_group.count": 1}),)) == doubt(free, (three,)) == ""
    assert "83 % of it was left" in " ".join(changed(free, WhatIf(changes=(three,))).assumptions)
    assert "its use was not read" in " ".join(changed(by_hand(SAFETY), WhatIf(changes=(three,))).assumptions)


def test_a_window_brings_a_batcher_and_removing_batching_takes_it_away() -> None:
    batched = after(SAFETY, dynamic_batching__max_queue_delay_microseconds=500)

    assert batched.batcher == DynamicBatcher(delay_seconds=0.0005)
    assert after(batched, dynamic_batching=None).batcher is None


def test_preferred_sizes_that_no_batch_reaches_any_more_are_dropped() -> None:
    held = after(SAFETY, dynamic_batching__preferred_batch_size=(4, 8), max_batch_size=8)
    made = after(held, max_batch_size=4)

    assert made.max_batch == 4
    assert made.batcher
    assert made.batcher.preferred == (4,)


def test_preferred_sizes_that_triton_would_not_load_are_refused() -> None:
    with pytest.raises(UsageError, match="no preferred_batch_size 8 above max_batch_size 4"):
        after(SAFETY, dynamic_batching__preferred_batch_size=(4, 8), max_batch_size=4)


def test_a_batch_size_that_the_engines_slots_undercut_is_refused_with_the_setting_that_limits() -> None:
    """Triton would take 64, the engine has 32 slots: 48 instead of 64 changes nothing, 16 does."""
    config = parse_model_config(json.dumps(model_config("llm", max_batch=64)).encode())
    fitted = replace(by_hand(LLM), configs={"llm": config})

    def slots(path: str, size: int) -> int:
        made = changed(fitted, WhatIf(changes=(change("llm", {path: size}),))).scenario.models[0].engine
        assert made
        return made.slots

    with pytest.raises(
        UsageError, match=r"64 does not limit it; the engine's 32 slots do.*llm\.engine\.max_batch_size=48"
    ):
        slots("max_batch_size", 48)
    assert slots("max_batch_size", 16) == 16
    assert slots("engine.max_batch_size", 48) == 48
    assert SchedulerModel(fitted).value_now("llm", "engine.max_batch_size") == (32, True)
    assert SchedulerModel(by_hand(SAFETY)).value_now("safety", "engine.max_batch_size") == (None, False)


def test_a_queue_policy_is_there_from_its_first_field_to_its_removal() -> None:
    limited = after(SAFETY, dynamic_batching__default_queue_policy__max_queue_size=4)

    assert limited.batcher
    assert limited.batcher.policy
    assert limited.batcher.policy.max_size == 4
    removed = after(limited, dynamic_batching__default_queue_policy=None)
    assert removed.batcher
    assert removed.batcher.policy is None


def test_an_engine_takes_slots_and_cache_and_refuses_what_was_not_measured() -> None:
    engine = after(LLM, engine__max_batch_size=64).engine
    assert engine
    assert engine.slots == 64

    cached = after(LLM, parameters__max_tokens_in_paged_kv_cache="2000").engine
    assert cached
    assert cached.cache_tokens == 2000

    for refused in (
        {"engine__max_num_tokens": 4096},
        {"parameters__unheard_of": "1"},
        {"instance_group__count": 2},
        LIMIT,
    ):
        with pytest.raises(Unpredictable):
            after(LLM, **refused)


@pytest.mark.parametrize("given", ["nan", "inf", "0", "-1", "all"])
def test_a_cache_of_no_size_is_refused(given: str) -> None:
    for key in ("max_tokens_in_paged_kv_cache", "kv_cache_free_gpu_mem_fraction"):
        with pytest.raises(UsageError, match="give a number above 0"):
            after(LLM, **{f"parameters__{key}": given})


@pytest.mark.parametrize(("now", "before"), [("0.5", 0.5), ("0", 0.9), ("${unset}", 0.9)])
def test_a_cache_grows_with_its_share_of_the_memory_from_the_one_in_effect(now: str, before: float) -> None:
    parameters = {"kv_cache_free_gpu_mem_fraction": {"string_value": now}}
    config = parse_model_config(json.dumps(model_config("llm", parameters=parameters)).encode())
    fitted = replace(by_hand(LLM), configs={"llm": config})
    made = changed(fitted, WhatIf(changes=(change("llm", {"parameters.kv_cache_free_gpu_mem_fraction": "0.25"}),)))

    assert made.scenario.models[0].engine
    assert made.scenario.models[0].engine.cache_tokens == pytest.approx(1000 * 0.25 / before)
    with pytest.raises(UsageError, match="at most 1"):
        after(LLM, parameters__kv_cache_free_gpu_mem_fraction="1.5")


def test_settings_without_a_steady_effect_say_so() -> None:
    made = changed(by_hand(SAFETY), WhatIf(changes=(change("safety", {"version_policy": "latest:1"}),)))

    assert made.scenario == by_hand(SAFETY).scenario
    assert "does nothing to requests" in made.assumptions[-1]


def test_a_rate_scales_processes_and_recorded_arrivals() -> None:
    drawn = changed(by_hand(SAFETY), WhatIf(rate_factor=2.0)).scenario.traffic[0]
    recorded = by_hand(SAFETY, traffic=OpenLoop(entry="chat", times=(0.0, 1.0, 4.0)))

    assert isinstance(drawn, OpenLoop)
    assert drawn.rate == 40.0
    replayed = changed(recorded, WhatIf(rate_factor=2.0)).scenario.traffic[0]
    assert isinstance(replayed, OpenLoop)
    assert replayed.times == (0.0, 0.5, 2.0)


def test_clients_are_of_closed_loops_and_rates_of_open_ones() -> None:
    closed = by_hand(SAFETY, traffic=ClosedLoop(entry="chat", clients=4))
    more = changed(closed, WhatIf(clients=8)).scenario.traffic[0]

    assert isinstance(more, ClosedLoop)
    assert more.clients == 8
    with pytest.raises(UsageError, match="number of clients"):
        changed(closed, WhatIf(rate_factor=2.0))
    with pytest.raises(UsageError, match="change the rate"):
        changed(by_hand(SAFETY), WhatIf(clients=8))


def test_a_rate_is_of_entries_whose_clients_do_not_wait_and_the_others_stay() -> None:
    fitted = by_hand(SAFETY)
    loop = ClosedLoop(entry="side", clients=3)
    beside = replace(fitted, scenario=replace(fitted.scenario, traffic=(*fitted.scenario.traffic, loop)))
    made = changed(beside, WhatIf(rate_factor=2.0))

    assert made.scenario.traffic == (OpenLoop(entry="chat", rate=40.0), loop)
    assert made.assumptions == ("side keeps its 3 clients, which wait for their answers, at any rate elsewhere",)


def test_a_model_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="its models are safety"):
        changed(by_hand(SAFETY), WhatIf(changes=(change("saftey", {"instance_group.count": 2}),)))
