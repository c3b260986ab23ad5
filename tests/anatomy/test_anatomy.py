"""Where one request's time goes, from counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.anatomy.anatomy import Anatomy, Phase, anatomies, entry_of
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, chain, ensemble_config, model_config, on

PRE = Stage("pre", rate=10, execution=0.01, queue=0.02, config=model_config("pre"))
SAFETY = Stage("safety", rate=10, execution=0.03, queue=0.1, input=0.001, output=0.002, config=model_config("safety"))
# What an ensemble takes is stated whole: its row holds no queue of its members.
CHAT = Stage("chat", rate=10, overhead=0.2, config=chain("chat", "pre", "safety"))


def evidence(*stages: Stage) -> WindowEvidence:
    return SyntheticTriton(models=stages).evidence()


def only(*stages: Stage) -> Anatomy:
    (anatomy,) = anatomies(evidence(*stages))
    return anatomy


def test_an_ensembles_time_is_its_own_and_its_members_parts_lie_in_it() -> None:
    anatomy = only(CHAT, PRE, SAFETY)

    assert (anatomy.ensemble, anatomy.requests) == ("chat", 600)
    assert anatomy.mean_seconds == pytest.approx(0.2)
    safety = anatomy.stage("safety")
    assert safety is not None
    assert safety.cells == pytest.approx(
        {Phase.QUEUE: 0.1, Phase.INPUT: 0.001, Phase.COMPUTE: 0.03, Phase.OUTPUT: 0.002}
    )
    assert anatomy.unattributed_seconds == pytest.approx(0.2 - 0.03 - 0.133)


def test_parallel_branches_count_once_by_the_longer() -> None:
    diamond = ensemble_config("chat", ("pre", ("t",), ("a",)), ("safety", ("t",), ("b",)), ("post", ("a", "b"), ("c",)))
    post = Stage("post", rate=10, execution=0.01, config=model_config("post"))
    anatomy = only(replace(CHAT, config=diamond), PRE, SAFETY, post)

    assert anatomy.unattributed_seconds == pytest.approx(0.2 - 0.133 - 0.01)


@pytest.mark.parametrize(
    "config",
    [
        model_config("llm", backend="vllm"),
        model_config("llm", backend="python", model_transaction_policy={"decoupled": True}),
    ],
    ids=["an engine", "a decoupled model"],
)
def test_the_hidden_time_of_the_one_stage_that_answers_on_its_own_is_its_engine_phase(
    config: dict[str, object],
) -> None:
    """108 of 122 ms in no counter of the model: they lie between its end and the next stage's start."""
    llm = Stage("llm", rate=10, execution=0.0003, config=config)
    anatomy = only(replace(CHAT, overhead=0.122, config=chain("chat", "pre", "llm")), replace(PRE, queue=0), llm)
    stage = anatomy.stage("llm")

    assert stage is not None
    assert stage.cells[Phase.ENGINE] == pytest.approx(0.122 - 0.01 - 0.0003)
    assert anatomy.unattributed_seconds == 0


def test_an_engine_whose_row_carries_its_time_has_no_hidden_phase() -> None:
    llm = Stage("llm", rate=10, execution=0.1, config=model_config("llm", backend="tensorrtllm"))
    anatomy = only(replace(CHAT, overhead=0.15, config=chain("chat", "pre", "llm")), PRE, llm)
    stage = anatomy.stage("llm")

    assert stage is not None
    assert Phase.ENGINE not in stage.cells
    assert stage.cells[Phase.COMPUTE] == pytest.approx(0.1)


def test_with_two_hidden_stages_the_rest_belongs_to_neither() -> None:
    hidden = {"backend": "python", "model_transaction_policy": {"decoupled": True}}
    stages = [Stage(name, rate=10, execution=0.001, config=model_config(name, **hidden)) for name in ("a", "b")]  # type: ignore[arg-type]
    anatomy = only(replace(CHAT, config=chain("chat", "a", "b")), *stages)

    assert all(Phase.ENGINE not in stage.cells for stage in anatomy.stages)
    assert anatomy.unattributed_seconds == pytest.approx(0.198)


def test_members_that_take_longer_than_their_ensemble_leave_nothing_negative() -> None:
    assert only(replace(CHAT, overhead=0.05), PRE, SAFETY).unattributed_seconds == 0


def test_a_model_that_is_called_directly_is_an_entry_of_its_own() -> None:
    anatomy = only(SAFETY)

    assert anatomy.ensemble is None
    assert anatomy.mean_seconds == pytest.approx(0.133)
    assert anatomy.unattributed_seconds == pytest.approx(0)


def test_the_versions_of_a_model_are_one_stage() -> None:
    """10/s wait 100 ms, 30/s wait 20 ms: 40 ms."""
    one = replace(SAFETY, queue=0.1)
    anatomy = only(one, replace(one, version="2", rate=30, queue=0.02))

    assert [stage.model for stage in anatomy.stages] == ["safety"]
    assert anatomy.stages[0].cells[Phase.QUEUE] == pytest.approx(0.04)


def test_entries_come_busiest_first_and_idle_ones_not_at_all() -> None:
    idle = Stage("idle", config=model_config("idle"))
    light = Stage("light", rate=1, execution=0.01, config=model_config("light"))
    found = anatomies(evidence(light, idle, CHAT, PRE, SAFETY))

    assert [(item.ensemble, item.stages[0].model) for item in found] == [("chat", "pre"), (None, "light")]


def test_without_configuration_every_row_stands_for_itself() -> None:
    stages = (replace(CHAT, config={}), replace(PRE, config={}))

    assert {item.stages[0].model for item in anatomies(evidence(*stages))} == {"chat", "pre"}


class TestEntries:
    """Whose requests a stage's time is part of."""

    def test_a_shared_member_belongs_to_the_ensemble_with_the_most_time_in_it(self) -> None:
        search = Stage("search", rate=1, overhead=0.1, config=chain("search", "pre"))
        see = evidence(CHAT, search, replace(PRE, rate=11), SAFETY)
        entry = entry_of(anatomies(see), see, on("pre"))

        assert entry is not None
        assert entry.ensemble == "chat"

    def test_a_version_weighs_as_much_as_its_requests(self) -> None:
        second = replace(SAFETY, version="2", rate=30)
        see = evidence(SAFETY, second)
        entry = entry_of(anatomies(see), see, on("safety", "2"))

        assert entry is not None
        assert entry.weight == pytest.approx(0.75)

    def test_a_model_without_traffic_has_none(self) -> None:
        see = evidence(replace(SAFETY, rate=0))

        assert entry_of(anatomies(see), see, on("safety")) is None

    def test_an_ensemble_is_its_own_entry(self) -> None:
        see = evidence(CHAT, PRE, SAFETY)
        entry = entry_of(anatomies(see), see, Subject(server=SERVER, ensemble="chat"))

        assert entry is not None
        assert (entry.ensemble, entry.weight) == ("chat", 1.0)


def test_what_a_direct_call_takes_beyond_its_phases_is_unattributed() -> None:
    anatomy = only(Stage("m", rate=10, execution=0.01, queue=0.02, overhead=0.05, config=model_config("m")))

    assert anatomy.mean_seconds == pytest.approx(0.08)
    assert anatomy.unattributed_seconds == pytest.approx(0.05)
