"""Graphs, waterfalls and charts: numbers checked by hand, and what holds for any graph."""

from __future__ import annotations

import json
import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.anatomy.anatomy import anatomies
from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.render.explanation.charts import course
from diagnostics.render.explanation.graph import NARROW, WIDE, GraphLayout, Picture, picture
from diagnostics.render.html_page import SPAN, axis_end, waterfall
from diagnostics.signals.signal import Subject
from diagnostics.window.graph import Ensemble, graph_of
from diagnostics.wire.model_config import EnsembleStep, parse_model_config
from tests.builders import SERVER, SyntheticTriton, chain, ensemble_config, model_config, on, restarted_at
from tests.builders import Stage as Traffic


def ensemble(config: dict[str, object]) -> Ensemble:
    return next(iter(graph_of({"e": parse_model_config(json.dumps(config).encode())}).ensembles.values()))


DIAMOND = ensemble(ensemble_config("e", ("a", "i", "x"), ("b", "x", "y"), ("c", "x", "z"), ("d", "yz", "o")))


@st.composite
def graphs(draw: st.DrawFn) -> Ensemble:
    """Any ensemble of up to eight steps whose edges go forward."""
    count = draw(st.integers(1, 8))
    edges = tuple(
        tuple(sorted(draw(st.sets(st.integers(i + 1, count - 1), max_size=3)))) if i + 1 < count else ()
        for i in range(count)
    )
    steps = tuple(EnsembleStep(model=f"m{i}", version=-1, input_map={}, output_map={}) for i in range(count))
    return Ensemble("e", steps, edges)


def corners(shown: Picture) -> list[tuple[float, float, float, float]]:
    return [(node.x, node.y, node.x + node.width, node.y + node.height) for node in shown.nodes]


@given(graphs(), st.sampled_from([WIDE, NARROW]))
def test_no_node_lies_on_another_or_outside(graph: Ensemble, layout: GraphLayout) -> None:
    shown = picture(graph, {}, layout)
    boxes = corners(shown)

    assert len(boxes) == len(graph.steps)
    assert not [1 for a, b in combinations(boxes, 2) if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]]
    assert all(min(x, y) >= 0 and right <= shown.width and low <= shown.height for x, y, right, low in boxes)


def by_way(graph: Ensemble, i: int, j: int) -> bool:
    """Return whether a way of several edges leads from one step to another."""
    return any(k != j and (j in graph.edges[k] or by_way(graph, k, j)) for k in graph.edges[i])


@pytest.mark.parametrize("layout", [WIDE, NARROW])
def test_an_input_that_a_chain_hands_past_a_stage_makes_no_line_around_it(layout: GraphLayout) -> None:
    steps = tuple(EnsembleStep(model=f"m{i}", version=-1, input_map={}, output_map={}) for i in range(4))
    chain = picture(Ensemble("e", steps, ((1,), (2,), (3,), ())), {}, layout)

    assert picture(Ensemble("e", steps, ((1, 2, 3), (2,), (3,), ())), {}, layout) == chain


@given(graphs(), st.sampled_from([WIDE, NARROW]))
def test_every_edge_leaves_one_node_and_reaches_another(graph: Ensemble, layout: GraphLayout) -> None:
    shown = picture(graph, {}, layout)
    along = 0 if layout.along_x else 1

    implied = [(i, j) for i, followers in enumerate(graph.edges) for j in followers if by_way(graph, i, j)]
    assert len(shown.edges) == sum(map(len, graph.edges)) - len(implied)
    for path in shown.edges:
        points = [tuple(map(float, point)) for point in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]
        assert any(points[0][along] == pytest.approx(box[2 + along], abs=0.1) for box in corners(shown))
        assert any(points[-1][along] == pytest.approx(box[along], abs=0.1) for box in corners(shown))


def test_parallel_branches_stand_beside_each_other() -> None:
    places = {node.title: (node.x, node.y) for node in picture(DIAMOND, {}, WIDE).nodes}

    assert places["b"][0] == places["c"][0] > places["a"][0]
    assert places["b"][1] != places["c"][1]
    assert places["a"][1] == places["d"][1]


def test_a_chain_fits_a_phone() -> None:
    shown = picture(ensemble(chain("e", "a", "b", "c")), {}, NARROW)

    assert shown.width <= 343
    assert [node.x for node in shown.nodes] == [shown.nodes[0].x] * 3


def anatomy(**seconds: float) -> Anatomy:
    stages = tuple(
        Stage(model=name, cells={Phase.QUEUE: spent / 4, Phase.COMPUTE: spent * 3 / 4})
        for name, spent in seconds.items()
    )
    return Anatomy(
        server=SERVER,
        ensemble="e",
        requests=100,
        mean_seconds=1.0,
        stages=stages,
        unattributed_seconds=0.1,
        source="statistics",
    )


def test_a_stage_begins_when_the_slowest_before_it_has_ended() -> None:
    shown = waterfall("t", anatomy(a=0.2, b=0.5, c=0.1, d=0.2), DIAMOND, 0.0)
    begins = {bar.name: bar.segments[0].x / SPAN for bar in shown.bars}

    assert begins == pytest.approx({"a": 0, "b": 0.2, "c": 0.2, "d": 0.7, "between stages": 0.9})
    assert shown.ticks[-1] == "1 s"


def test_the_phases_of_a_bar_follow_one_another() -> None:
    (bar,) = waterfall("t", anatomy(a=0.8), None, 0.0).bars[:1]

    assert [s.phase for s in bar.segments] == ["queue", "compute"]
    assert [(s.x, s.width) for s in bar.segments] == [pytest.approx((0, 200)), pytest.approx((200, 600))]
    assert (bar.shown, bar.share) == ("800 ms", "80 %")


def test_pictures_can_share_an_axis() -> None:
    assert waterfall("t", anatomy(a=0.8), None, 3.7).ticks[-1] == "4 s"


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_an_axis_ends_at_a_round_number_just_above(largest: float) -> None:
    assert largest * (1 - 1e-9) <= axis_end(largest) <= largest * 1.6


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_an_axis_without_anything_on_it_has_an_end_all_the_same(value: float) -> None:
    assert axis_end(value) == 1.0


STEADY = Traffic("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))


def test_a_course_shows_each_signal_per_stretch() -> None:
    see = SyntheticTriton(models=(STEADY,)).evidence()
    found = course(see, on("slow", None), on("slow", None))
    assert found is not None
    charts = {chart.kind: chart for chart in found.charts}

    assert set(charts["queue"].values) == {"170 ms"}
    assert set(charts["rate"].values) == {"38/s"}
    assert len(found.times) == 12
    assert charts["queue"].top == "200 ms"


def test_a_restart_is_marked_and_leaves_no_dip() -> None:
    see = SyntheticTriton(models=(STEADY,), alter=restarted_at(6)).evidence()
    found = course(see, on("slow", None), on("slow", None))
    assert found is not None

    assert [mark.kind for mark in found.marks] == ["change"]
    assert "slow version 1 loaded" in found.marks[0].text
    assert set(next(chart for chart in found.charts if chart.kind == "rate").values) == {"38/s"}


def test_an_onset_is_marked_where_it_is() -> None:
    see = SyntheticTriton(models=(STEADY,)).evidence()
    found = course(see, on("slow", None), on("slow", None), see.window.start + 30)
    assert found is not None
    (mark,) = found.marks

    assert (mark.kind, mark.x) == ("onset", 180.0)


def test_too_few_requests_have_no_course() -> None:
    see = SyntheticTriton(models=(Traffic("slow", rate=0.2, execution=0.1, config=model_config("slow")),)).evidence()

    assert course(see, on("slow", None), on("slow", None)) is None


def test_what_is_not_read_is_no_line_at_zero() -> None:
    see = SyntheticTriton(models=(STEADY,), cpu_busy=None).without().evidence()
    entry = Subject(server=SERVER, ensemble="gone")
    found = course(see, entry, on("slow", None))
    assert found is not None

    assert "total" not in {chart.kind for chart in found.charts}
    assert anatomies(see)
