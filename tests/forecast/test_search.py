from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from diagnostics.forecast import search
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import options
from diagnostics.forecast.packing import GpuMemory
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.search import Candidate, Tuning
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.service import constant
from diagnostics.tuning.simulation.scenario import ClosedLoop, DynamicBatcher, EngineModel, Model
from diagnostics.wire.model_config import DynamicBatching
from tests.forecast.deployments import change, service
from tests.forecast.performances import estimate
from tests.forecast.tunable import VISITS, tunable, tune

# Nine tenths busy at 20 requests per second, and a stage before it that is idle.
SAFETY = Model(name="safety", service=service(0.045), service_scv=0.1)
EMBEDDER = Model(name="embedder", service=service(0.01), service_scv=0.1)
COUNT = "instance_group.count"


def target(text: str) -> LatencyTarget:
    return LatencyTarget.parse(text)


def settings(found: Candidate | None) -> dict[str, object]:
    assert found is not None
    return {f"{one.model}.{each.path}": each.value for one in found.changes for each in one.settings}


def test_a_stage_that_serializes_gets_the_instances_that_suffice_and_nothing_else_is_touched() -> None:
    found = tune(tunable(EMBEDDER, SAFETY), target("p95 < 120ms"), draws=0)

    assert settings(found.best) == {f"safety.{COUNT}": 2}
    assert found.best is not None
    assert target("p95 < 120ms").met(found.best.performance)
    assert found.nearest is None


def test_a_target_that_is_met_needs_no_change() -> None:
    found = tune(tunable(EMBEDDER), target("p95 < 120ms"), draws=0)

    assert settings(found.best) == {}
    assert (found.screened, found.simulated, found.runners_up) == (0, 0, ())


def test_cheap_batches_are_reported_to_form_before_instances_are_added() -> None:
    flat = Model(name="flat", service=service(0.045, per_item=0.0005), max_batch=8)

    found = tune(tunable(flat), target("p95 < 140ms"), draws=0)

    assert list(settings(found.best)) == ["flat.dynamic_batching"]
    assert [settings(one) for one in found.runners_up] == [{f"flat.{COUNT}": 2}]


def test_a_window_is_shortened_rather_than_batching_turned_off_where_both_do() -> None:
    """Requests wait 60 ms for company that hardly comes: without the window and without the batcher they do not."""
    batcher = DynamicBatcher(delay_seconds=0.06)
    fitted = tunable(Model(name="linear", service=service(0.0, per_item=0.02), max_batch=8, batcher=batcher))
    config = replace(fitted.configs["linear"], dynamic_batching=DynamicBatching(max_queue_delay_seconds=0.06))

    found = tune(replace(fitted, configs={"linear": config}), target("mean < 45ms"), draws=0)

    assert settings(found.best) == {"linear.dynamic_batching.max_queue_delay_microseconds": 0}


def test_batches_that_cost_what_their_requests_do_are_not() -> None:
    linear = Model(name="linear", service=service(0.0, per_item=0.045), max_batch=8)

    found = tune(tunable(linear), target("p95 < 120ms"), draws=0)

    assert settings(found.best) == {f"linear.{COUNT}": 2}


def test_batches_that_were_never_seen_come_after_settings_that_rest_on_what_was() -> None:
    unseen = replace(service(0.045), sizes_seen=(1,), estimated=True)
    fitted = tunable(Model(name="first", service=unseen, max_batch=8))

    ways = options(fitted.scenario.models[0], fitted.configs["first"], fewer=False)

    assert {one.guess for one in ways if one.settings and one.instances == 1} == {True}
    assert {one.guess for one in ways if one.settings == 1 and one.instances == 2} == {False}


def test_what_execution_alone_exceeds_has_no_answer_and_what_comes_nearest_is_reported() -> None:
    found = tune(tunable(EMBEDDER, SAFETY), target("mean < 50ms"), draws=0)

    assert found.best is None
    assert found.runners_up == ()
    assert f"safety.{COUNT}" in settings(found.nearest)


def test_what_comes_nearest_is_the_answer_where_its_long_run_meets_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_chance(fitted: Fitted, what_if: WhatIf | None = None, *, draws: int, **more: Any) -> Performance:
        found = performance(fitted, what_if, draws=draws, **more)
        changed = what_if is not None and bool(what_if.changes)
        return replace(found, p95=estimate(0.121 if not draws else 0.119)) if changed else found

    monkeypatch.setattr(search, "performance", by_chance)
    found = tune(tunable(SAFETY), target("p95 < 120ms"), draws=1)

    assert found.best is not None
    assert found.best.changes
    assert found.nearest is None


def test_where_no_change_brings_anything_the_present_setting_is_what_comes_nearest() -> None:
    engine = EngineModel(slots=2, prefill_seconds=0.0, iteration_seconds=0.01, iterations=20.0)

    found = tune(tunable(Model(name="llm", service=constant(0.2), engine=engine)), target("p95 < 1s"), draws=0)

    assert found.best is None
    assert settings(found.nearest) == {}


def test_no_instance_is_taken_away_unless_that_is_requested() -> None:
    idle = tunable(replace(EMBEDDER, instances=4))

    kept = tune(idle, target("p95 < 120ms"), draws=0)
    fewer = tune(idle, target("p95 < 120ms"), fewer=True, draws=0)

    assert settings(kept.best) == {}
    assert settings(fewer.best) == {f"embedder.{COUNT}": 1}


def test_only_what_is_varied_changes_and_the_value_in_effect_is_no_change() -> None:
    found = tune(tunable(EMBEDDER, SAFETY), target("p95 < 120ms"), vary={"safety": {COUNT: (1, 4)}}, draws=0)

    assert settings(found.best) == {f"safety.{COUNT}": 4}
    assert found.simulated == 2


def test_instances_that_the_gpus_memory_does_not_hold_are_not_suggested() -> None:
    fitted = tunable(replace(SAFETY, demand={"GPU": 0.3}), gpu=True)
    small = GpuMemory(free=1.5e9, total=24e9, held={"safety": 2e9})

    full = tune(fitted, target("p95 < 120ms"), memory=small, draws=0)
    roomy = tune(fitted, target("p95 < 120ms"), memory=replace(small, free=2.5e9), draws=0)
    unread = tune(fitted, target("p95 < 120ms"), memory=replace(small, held={}, unknown=frozenset({"safety"})), draws=0)

    assert full.best is None
    assert full.too_large > 0
    assert (settings(roomy.best), roomy.best and roomy.best.fits) == ({f"safety.{COUNT}": 2}, True)
    assert unread.best is not None
    assert unread.best.fits is None


def test_clients_of_a_closed_loop_are_kept_while_settings_change() -> None:
    loop = ClosedLoop(entry="chat", clients=4)

    found = tune(tunable(SAFETY, traffic=loop), target("mean < 100ms"), draws=0)

    assert settings(found.best) == {f"safety.{COUNT}": 2}


def test_one_seed_gives_one_answer() -> None:
    fitted = tunable(EMBEDDER, SAFETY)

    def once() -> Tuning:
        return tune(fitted, target("p95 < 120ms"), seed=5, draws=1)

    assert once() == once()


COUNTS = ((1, 2, 3), (1, 2, 3, 4))
VARY = {"embedder": {COUNT: COUNTS[0]}, "safety": {COUNT: COUNTS[1]}}


@pytest.fixture(scope="module")
def space() -> tuple[Fitted, dict[tuple[int, int], Performance]]:
    """Return a deployment, and what each of its twelve settings is simulated to do, by instances."""
    fitted = tunable(replace(EMBEDDER, service=service(0.02)), SAFETY)
    found = {}
    for first, second in product(*COUNTS):
        changes = (change("embedder", {COUNT: first}), change("safety", {COUNT: second}))
        found[first, second] = performance(fitted, WhatIf(changes=changes), draws=0, visits=VISITS)
    return fitted, found


@pytest.mark.parametrize("objective", ["p95 < 90ms", "p95 < 110ms", "mean < 66ms", "mean < 60ms"])
def test_no_cheaper_setting_of_a_small_space_meets_the_target(
    objective: str, space: tuple[Fitted, dict[tuple[int, int], Performance]]
) -> None:
    fitted, simulated = space
    meeting = [sum(counts) for counts, one in simulated.items() if target(objective).met(one)]

    found = tune(fitted, target(objective), vary=VARY, draws=0)

    assert (found.best.instances if found.best else None) == min(meeting, default=None)
    assert found.best is None or target(objective).met(found.best.performance)
