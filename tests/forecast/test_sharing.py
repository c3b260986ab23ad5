from __future__ import annotations

import pytest

from diagnostics.forecast.sharing import SharedDevice, SharedInstance, scale_for, shares, sharing_of, used
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, SERVER_CORES, SERVER_CPU_SHARE
from diagnostics.tuning.simulation.scenario import Model
from tests.stated_evidence import SUBJECT, StatedEvidence
from tests.tuning.simulated import service

TWO = (SharedInstance(model="a", busy=0.5), SharedInstance(model="b", busy=0.5))


def test_use_is_the_mean_of_what_runs_together() -> None:
    # Neither 1/4, one 1/2, both 1/4 of the time; together they want 1.6 of a card.
    assert used(TWO, 0.8, 1.0) == pytest.approx(0.5 * 0.8 + 0.25, abs=0.01)


def test_the_demand_that_explains_a_use_is_found() -> None:
    assert used(TWO, scale_for(TWO, 0.5, 1.0), 1.0) == pytest.approx(0.5, abs=0.01)
    assert scale_for(TWO, 0.99, 1.0) == 1.0


def test_an_execution_alone_is_as_much_quicker_as_the_others_slow_it() -> None:
    found = shares(TWO, 0.8, 1.0)["a"]

    assert found.demand == 0.8
    assert found.alone == pytest.approx(0.5 + 0.5 / 1.6, abs=0.01)
    assert shares((SharedInstance(model="a", busy=0.9),), 0.8, 1.0)["a"].alone == pytest.approx(1.0)


def test_a_thousand_lanes_are_as_a_few_dozen_would_be_and_take_no_longer() -> None:
    few, many = ((SharedInstance(model="a", busy=0.5),) * count for count in (32, 33))

    assert used(few, 1 / 16, 1.0) == pytest.approx(0.93, abs=0.02)
    assert used(many, 1 / 16.5, 1.0) == pytest.approx(used(few, 1 / 16, 1.0), abs=0.01)
    assert shares((SharedInstance(model="a", busy=0.5),) * 1024, 0.1, 1.0)["a"].alone == pytest.approx(
        1 / 51.25, rel=0.01
    )


def test_between_its_ends_a_devices_use_is_taken_at_equal_ratios() -> None:
    sharing = SharedDevice(resource="GPU", capacity=1.0, lanes=TWO, low=0.2, central=0.4, high=0.8, assumption="")

    assert [sharing.parts(at)["a"].demand for at in (0.0, 0.5, 1.0)] == pytest.approx([0.2, 0.4, 0.8])
    assert sharing.parts(0.25)["a"].demand == pytest.approx((0.2 * 0.4) ** 0.5)


def test_an_engine_takes_of_the_processors_what_its_processes_used_while_it_iterates() -> None:
    # Its row shows the hundredth of the time in which requests are handed over, at two processors.
    host = {SERVER_CORES: 4.0, HOST_CPU_BUSY: 0.9, SERVER_CPU_SHARE: 0.1}
    evidence = StatedEvidence({**host, INSTANCE_BUSY_SHARE: 0.01, CPU_PER_LANE: 2.0})
    llm = Model(name="llm", service=service(0.001))

    (processors,) = sharing_of(evidence, SUBJECT.server, {"llm": llm}, {"llm": 0.8}, {})

    assert [(one.busy, one.weight) for one in processors.lanes] == [(0.8, pytest.approx(2.0 * 0.01 / 0.8))]
