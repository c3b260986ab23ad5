from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from diagnostics.forecast.fitted import Doubt, ModelDoubt
from diagnostics.forecast.members import is_racing, race, with_missed_wakeups
from diagnostics.forecast.runs import Draw, drawn
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.scenario import ClosedLoop, DynamicBatcher, Model, QueueDiscipline
from diagnostics.tuning.simulation.simulate import simulate
from tests.forecast.deployments import by_hand, change, service

LIMITED = Model(name="safety", service=service(0.03), batcher=DynamicBatcher(policy=QueueDiscipline(max_size=4)))


def test_clients_who_are_refused_and_ask_again_at_once_do_not_hide_lost_races() -> None:
    share = 0.1
    scenario = by_hand(LIMITED, traffic=ClosedLoop(entry="chat", clients=6, think_seconds=0.01)).scenario
    waits = simulate(with_missed_wakeups(scenario, LIMITED, share), seconds=20.0, seed=5).models["safety"].waits

    assert race(scenario, LIMITED, fmean(waits), 8.0).share == pytest.approx(share, abs=0.07)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_queue_behind_a_policy_tells_how_often_the_batcher_looked_too_early(share: float) -> None:
    scenario = by_hand(LIMITED).scenario
    waits = simulate(with_missed_wakeups(scenario, LIMITED, share), seconds=100.0, seed=5).models["safety"].waits

    found = race(scenario, LIMITED, fmean(waits), 50.0)

    assert found.share == pytest.approx(share, abs=0.07)
    assert found.bounds[0] == 0.0
    assert found.bounds[1] > found.share


def test_draws_lose_races_within_bounds_and_only_where_a_batcher_is_there_to_lose_them() -> None:
    doubt = ModelDoubt(service_scv=(0.0, 0.0), overtakes=(0.0, 0.4))
    unbatched = replace(LIMITED, name="embedder", batcher=None)
    fitted = by_hand(LIMITED, unbatched, doubt=Doubt(models={"safety": doubt, "embedder": doubt}))
    models = [drawn(fitted, Draw(number=number, of=4, seed=0)).models for number in range(4)]
    shares = sorted(one[0].batcher.overtakes for one in models if one[0].batcher)

    assert [int(share / 0.1) for share in shares] == [0, 1, 2, 3]
    assert all(one[1].batcher is None for one in models)


def test_a_change_that_brings_a_policy_says_what_nothing_promises() -> None:
    path = "dynamic_batching.default_queue_policy.max_queue_size"
    plain = replace(LIMITED, batcher=DynamicBatcher())
    after = changed(by_hand(plain), WhatIf(changes=(change("safety", {path: 8}),)))

    assert is_racing(after.scenario.models[0])
    assert not is_racing(plain)
    assert any("a race of the host's threads" in stated for stated in after.assumptions)
