"""A stage that a request visits several times costs it as many times what a visit costs."""

from __future__ import annotations

import pytest

from diagnostics.anatomy.anatomy import Anatomy, Phase, anatomies, entry_of
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.signal import Subject
from diagnostics.window.window import Window, window_of
from tests.builders import SERVER, Stage, SyntheticTriton, chain, ensemble_config, explained, model_config
from tests.builders_traces import Leg, call, export, exported, trace_id

QUEUE, WORK = 0.09, 0.02
CPU = ({"kind": "KIND_CPU", "count": 1},)


def scorer(rate: float, queue: float = QUEUE) -> Stage:
    return Stage("scorer", rate=rate, queue=queue, execution=WORK, config=model_config("scorer", groups=CPU))


def passing_twice(queue: float = QUEUE, other: float = 0.02) -> SyntheticTriton:
    """A chain that passes its scorer before and after another model."""
    ensemble = Stage(
        "chat", rate=20, overhead=2 * (queue + WORK) + other, config=chain("chat", "scorer", "writer", "scorer")
    )
    writer = Stage("writer", rate=20, execution=other, config=model_config("writer", backend="onnxruntime"))
    return SyntheticTriton(models=(ensemble, scorer(40, queue), writer))


def test_a_stage_passed_twice_takes_two_visits_of_each_request() -> None:
    (chat,) = anatomies(passing_twice().evidence())
    stage = chat.stage("scorer")

    assert stage is not None
    assert stage.visits == 2
    assert stage.cells[Phase.QUEUE] == pytest.approx(2 * QUEUE)
    assert chat.unattributed_seconds == pytest.approx(0.0, abs=1e-6)


def test_a_finding_is_worth_what_all_visits_of_a_request_lose() -> None:
    (finding,) = passing_twice().explain().actionable

    assert finding.check == "single-instance-serialization"
    assert finding.impact.seconds_per_request == pytest.approx(2 * QUEUE, rel=0.15)
    assert finding.impact.share_of_latency == pytest.approx(2 * QUEUE / 0.24, rel=0.15)


def test_what_is_not_worth_a_change_once_may_be_worth_it_twice() -> None:
    """Of 180 ms a visit's queue of 22 ms is an eighth and two visits' a quarter."""
    assert [finding.check for finding in passing_twice(0.022, 0.096).explain().actionable] == [
        "single-instance-serialization"
    ]


def test_visits_beside_each_other_count_once() -> None:
    steps = (("scorer", ("a",), ("b",)), ("scorer", ("a",), ("c",)), ("writer", ("b", "c"), ("d",)))
    ensemble = Stage("chat", rate=20, overhead=QUEUE + WORK + 0.02, config=ensemble_config("chat", *steps))
    writer = Stage("writer", rate=20, execution=0.02, config=model_config("writer", backend="onnxruntime"))
    (chat,) = anatomies(SyntheticTriton(models=(ensemble, scorer(40), writer)).evidence())
    stage = chat.stage("scorer")

    assert stage is not None
    assert stage.visits == 1
    assert stage.cells[Phase.QUEUE] == pytest.approx(QUEUE)


CALLS, OWN = 5, 0.03


def calling(*, beside: bool = False, others: float = 0.0) -> Window:
    """A model that calls the scorer five times from inside, one after another or side by side."""
    spent = (QUEUE + WORK) * (1 if beside else CALLS)
    agent = Stage("agent", rate=2, execution=OWN + spent, config=model_config("agent", groups=CPU))
    triton = SyntheticTriton(models=(agent, scorer(2 * CALLS + others)))
    visit = Leg(model="scorer", queue=QUEUE, compute=WORK)
    children = tuple(
        Leg(model="scorer", queue=QUEUE, compute=WORK, starts=0.01) if beside else visit for _ in range(CALLS)
    )
    leg = Leg(model="agent", compute=OWN + spent, below=children)
    spans = [span for number in range(118) for span in call(trace_id(number), leg, number / 2)]
    return window_of([*triton.scrapes(), exported(export(spans))])


def entries(window: Window) -> dict[str, Anatomy]:
    return {item.stages[0].model: item for item in anatomies(WindowEvidence(window))}


def test_called_models_are_stages_of_their_caller() -> None:
    found = entries(calling())
    agent, called = found["agent"], found["agent"].stage("scorer")

    assert list(found) == ["agent"]
    assert called is not None
    assert called.visits == CALLS
    assert called.cells[Phase.QUEUE] == pytest.approx(CALLS * QUEUE)
    assert agent.stages[0].cells[Phase.COMPUTE] == pytest.approx(OWN)
    assert sum(stage.seconds for stage in agent.stages) == pytest.approx(agent.mean_seconds)


def test_calls_beside_each_other_share_the_time_that_they_take() -> None:
    called = entries(calling(beside=True))["agent"].stage("scorer")

    assert called is not None
    assert called.cells[Phase.QUEUE] == pytest.approx(QUEUE)


def test_a_model_that_others_call_as_well_stays_an_entry() -> None:
    assert set(entries(calling(others=20))) == {"agent", "scorer"}


def test_a_called_models_time_is_weighed_against_its_callers_requests() -> None:
    window = calling()
    see = WindowEvidence(window)
    entry = entry_of(anatomies(see), see, Subject(server=SERVER, model="scorer", version="1"))

    assert entry is not None
    assert entry.weight == pytest.approx(CALLS)
    assert entry.mean_seconds == pytest.approx(OWN + CALLS * (QUEUE + WORK))
    shares = [finding.impact.share_of_latency for finding in explained(window).findings]
    assert sum(shares) <= 1.0
