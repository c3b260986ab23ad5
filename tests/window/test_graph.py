"""Which ensemble calls which models, in which order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window.graph import DeploymentGraph, graph_of
from diagnostics.wire.model_config import parse_model_config
from tests.builders import chain, ensemble_config, model_config


def graph_from(*configs: dict[str, object]) -> DeploymentGraph:
    parsed = [parse_model_config(json.dumps(config).encode()) for config in configs]
    return graph_of({config.name: config for config in parsed})


DIAMOND = ensemble_config(
    "chat",
    ("join", ("left", "right"), ("answer",)),
    ("a", ("text",), ("left",)),
    ("b", ("text",), ("right",)),
)


def test_models_and_ensembles_are_distinguished() -> None:
    graph = graph_from(chain("chat", "pre", "llm"), model_config("pre"), model_config("llm"))

    assert list(graph.ensembles) == ["chat"]


def test_steps_stand_behind_those_that_feed_them_whatever_the_files_order() -> None:
    ensemble = graph_from(DIAMOND).ensembles["chat"]

    assert ensemble.models() == ("a", "b", "join")
    assert ensemble.after("a") == ("join",)
    assert ensemble.before("join") == ("a", "b")
    assert ensemble.before("a") == ()
    assert ensemble.behind("a") == {"join"}
    assert ensemble.behind("join") == frozenset()


def test_all_that_an_output_leads_to_stands_behind_a_step() -> None:
    ensemble = graph_from(chain("chat", "pre", "llm", "post", "llm")).ensembles["chat"]

    assert ensemble.behind("pre") == {"llm", "post"}
    assert ensemble.behind("llm") == {"post"}


@pytest.mark.parametrize(
    ("seconds", "path", "total"),
    [
        ({"a": 0.3, "b": 0.1, "join": 0.05}, ("a", "join"), 0.35),
        ({"a": 0.1, "b": 0.3, "join": 0.05}, ("b", "join"), 0.35),
        ({"join": 0.05}, ("join",), 0.05),
    ],
)
def test_parallel_branches_take_as_long_as_the_longest(
    seconds: dict[str, float], path: tuple[str, ...], total: float
) -> None:
    found, length = graph_from(DIAMOND).ensembles["chat"].longest_path(seconds)

    assert found == path
    assert length == pytest.approx(total)


def test_a_model_may_serve_several_ensembles() -> None:
    graph = graph_from(chain("chat", "pre", "llm"), chain("search", "pre", "embedder"))

    assert [ensemble.name for ensemble in graph.callers("pre")] == ["chat", "search"]
    assert graph.callers("nobody") == ()


def test_a_cycle_in_a_damaged_configuration_is_taken_as_written() -> None:
    ensemble = graph_from(ensemble_config("chat", ("a", ("y",), ("x",)), ("b", ("x",), ("y",)))).ensembles["chat"]

    assert ensemble.models() == ("a", "b")
    assert ensemble.longest_path({"a": 1, "b": 1})[1] == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_any_wiring_keeps_every_step_once_and_edges_forward(wires: list[tuple[int, int]]) -> None:
    steps = [(f"m{i}", (f"t{a}",), (f"t{b}",)) for i, (a, b) in enumerate(wires)]
    graph = graph_from(ensemble_config("chat", *steps))
    ensemble = graph.ensembles["chat"]

    assert sorted(ensemble.models()) == sorted(f"m{i}" for i in range(len(wires)))
    assert all(j > i for i, followers in enumerate(ensemble.edges) for j in followers)
