"""A real Triton whose wrapper calls a full model: what an instance more of either is forecast to bring, and brings."""

from __future__ import annotations

import threading
import time

import pytest

from diagnostics.anatomy.anatomy import anatomies
from diagnostics.demo.environment import find_environment
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.window.window import window_of
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.record import serving
from tests.benchmark.kinds.world import Incident, Load, Model, World
from tests.forecast.deployments import change

pytestmark = [pytest.mark.live, pytest.mark.alone]

SECONDS, SETTLING, SEED = 16.0, 4.0, 3
# The callee is 80 % busy: requests wait for it, in its own queue and in the wrapper's.
RATE, CALLEE_MS, WRAPPERS = 16.0, 50.0, 6
WORLD = World(
    models=(
        Model(name="wrapper", base_ms=3.0, instances=WRAPPERS, calls=(("callee",),)),
        Model(name="callee", base_ms=CALLEE_MS),
    )
)


def measured(callees: int) -> WindowEvidence:
    """Return what is read of a server of its own with so many instances of the callee."""
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    loads = (Load(model="wrapper", rate=RATE),)
    with serving(Incident(world=WORLD.changed("callee", instances=callees), loads=loads), environment) as running:
        url = running.server.http_url
        load = threading.Thread(target=send, args=(loads, url, SETTLING + SECONDS + 1, SEED))
        load.start()
        time.sleep(SETTLING)
        target = discover(url)
        evidence = WindowEvidence(window_of(collect([target], 1.0, seconds=SECONDS)))
        load.join()
        target.close()
    return evidence


def fitted(evidence: WindowEvidence) -> Fitted:
    return fit(evidence, Subject(server=anatomies(evidence)[0].server, model="wrapper"))


def mean(found: Performance) -> float:
    assert found.mean is not None
    return found.mean.value


def test_an_instance_of_the_callee_brings_what_is_forecast_and_one_of_the_wrapper_nothing() -> None:
    full, spread = measured(1), measured(2)
    # Of two instances too few calls are under way at a read to tell who calls whom.
    assert [[stage.model for stage in entry.stages] for entry in anatomies(full)] == [["wrapper", "callee"]]
    before, after = fitted(full), fitted(spread)
    assert before.measured.mean is not None
    assert after.measured.mean is not None
    now = performance(before)
    callee, wrapper = (
        performance(before, WhatIf(changes=(change(name, {"instance_group.count": count}),)))
        for name, count in (("callee", 2), ("wrapper", 2 * WRAPPERS))
    )
    print(
        f"\nmeasured {before.measured.mean * 1e3:.0f} → {after.measured.mean * 1e3:.0f} ms, "
        f"forecast {mean(now) * 1e3:.0f} → {mean(callee) * 1e3:.0f} ms"
    )

    assert now.accounts_for(before.measured.mean)
    assert after.measured.mean < 0.75 * before.measured.mean
    assert mean(callee) == pytest.approx(after.measured.mean, rel=0.3)
    assert mean(wrapper) == pytest.approx(mean(now), rel=0.05)
