"""An ensemble as a picture: stages in levels along the way of a request, edges between them.

Coordinates are pixels of the picture at its natural size. Two layouts are made, along x for a wide screen and along y
for a narrow one; the same data is in both, and a style sheet shows one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.evidence.evidence import Evidence
from diagnostics.render.plain import fitted
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Reading, Subject
from diagnostics.signals.triton import BATCH_SIZE
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line in a node: what it is and its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is shown of a stage.

    `busy` is a share or None; `mark` is `cause`, `affected` or empty.
    """

    name: str
    facts: tuple[Fact, ...]
    busy: float | None
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A piece of text at a place; `kind` is its class."""

    x: float
    y: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A box with its labels, all placed absolutely; `title` is read out for it."""

    x: float
    y: float
    width: float
    height: float
    mark: str
    title: str
    busy_width: float | None
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A graph ready to be drawn; `edges` are path data."""

    kind: str
    width: float
    height: float
    nodes: tuple[GraphNode, ...]
    edges: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """How a graph runs, and how large its nodes and the gaps between them are, in pixels."""

    kind: str
    along_x: bool
    width: float
    height: float
    gap_along: float
    gap_across: float
    name_columns: int
    room: float = 0.0


WIDE = GraphLayout(kind="wide", along_x=True, width=168, height=104, gap_along=36, gap_across=18, name_columns=18)
# 327 pixels are what a phone of 375 leaves between margins.
NARROW = GraphLayout(
    kind="narrow", along_x=False, width=320, height=74, gap_along=26, gap_across=12, name_columns=38, room=327
)
_MARGIN = 4.0
_FLAG = 10.0
MOST_PASSED = 2_000
"""Levels that long edges are led through, all together: a chain of 200 steps that all feed each other passes a
million, which nobody can follow. Beyond that they go straight."""
Slot = tuple[int, ...]


def picture(ensemble: Ensemble, facts: Mapping[str, NodeFacts], layout: GraphLayout) -> Picture:
    """Return the graph of an ensemble; a step whose model has no facts shows its name alone."""
    levels, links = _levels(ensemble)
    most = max(map(len, levels), default=1)
    layout = _narrowed(layout, most)
    places = _places(levels, layout, most)
    nodes = []
    for i, step in enumerate(ensemble.steps):
        shown = facts.get(step.model) or NodeFacts(name=step.model, facts=(), busy=None, mark="")
        nodes.append(_node(shown, *places[(i,)], layout))
    across = most * (_across(layout) + layout.gap_across) - layout.gap_across
    along = len(levels) * (_along(layout) + layout.gap_along) - layout.gap_along
    width, height = (along, across) if layout.along_x else (across, along)
    return Picture(
        kind=layout.kind,
        width=width + 2 * _MARGIN,
        height=height + 2 * _MARGIN + _FLAG,
        nodes=tuple(nodes),
        edges=tuple(_path([places[slot] for slot in link], layout) for link in links),
    )


def _along(layout: GraphLayout) -> float:
    return layout.width if layout.along_x else layout.height


def _across(layout: GraphLayout) -> float:
    return layout.height if layout.along_x else layout.width


def _narrowed(layout: GraphLayout, lanes: int) -> GraphLayout:
    """Return the layout with nodes as narrow as its room for several lanes asks; never too narrow to read."""
    if not layout.room or lanes == 1:
        return layout
    width = max((layout.room - (lanes - 1) * layout.gap_across) / lanes, 150.0)
    return GraphLayout(
        kind=layout.kind,
        along_x=layout.along_x,
        width=width,
        height=WIDE.height,
        gap_along=layout.gap_along,
        gap_across=layout.gap_across,
        name_columns=int(width / 8.6),
        room=layout.room,
    )


def _levels(ensemble: Ensemble) -> tuple[list[list[Slot]], list[list[Slot]]]:
    """Return slots by level, and every edge as the slots that it passes.

    A step's slot is (step,); an edge over several levels gets a slot (from, to, level) in each, so that it passes
    beside the nodes there, unless there are too many of them.
    """
    edges = _reduced(ensemble.edges)
    level = [0] * len(ensemble.steps)
    for i, followers in enumerate(edges):
        for j in followers:
            level[j] = max(level[j], level[i] + 1)
    levels: list[list[Slot]] = [[] for _ in range(max(level, default=0) + 1)]
    for i, at in enumerate(level):
        levels[at].append((i,))
    links = []
    apart = sum(level[j] - level[i] - 1 for i, followers in enumerate(edges) for j in followers)
    for i, followers in enumerate(edges):
        for j in followers:
            between_them = range(level[i] + 1, level[j]) if apart <= MOST_PASSED else ()
            passed: list[Slot] = [(i, j, between) for between in between_them]
            for between, slot in enumerate(passed, level[i] + 1):
                levels[between].append(slot)
            links.append([(i,), *passed, (j,)])
    return _untangled(levels, links), links


def _reduced(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the edges without those that other edges imply (transitive reduction).

    A stage that waits for a later one waits for the earlier one, too: the line beside the stages between would show
    no other way of a request.
    """
    reached = [0] * len(edges)
    kept: list[list[int]] = [[] for _ in edges]
    for i in reversed(range(len(edges))):
        onward = 0
        for j in edges[i]:
            onward |= reached[j]
        kept[i] = [j for j in edges[i] if not onward >> j & 1]
        reached[i] = onward
        for j in edges[i]:
            reached[i] |= 1 << j
    return kept


def _untangled(levels: Sequence[Sequence[Slot]], links: Sequence[Sequence[Slot]]) -> list[list[Slot]]:
    """Return the levels, each sorted by the mean position of what leads there, so that edges cross less."""
    before: dict[Slot, list[Slot]] = {}
    for link in links:
        for a, b in pairwise(link):
            before.setdefault(b, []).append(a)
    position: dict[Slot, float] = {}
    found = []
    for slots in levels:
        wanted = {slot: _mean([position[a] for a in before.get(slot, ()) if a in position]) for slot in slots}
        ordered = sorted(slots, key=lambda slot: (wanted[slot], slot))
        position |= {slot: float(i) - len(ordered) / 2 for i, slot in enumerate(ordered)}
        found.append(ordered)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _places(levels: Sequence[Sequence[Slot]], layout: GraphLayout, most: int) -> dict[Slot, tuple[float, float]]:
    """Return the upper left corner of every slot; levels are centred across."""
    pitch = _across(layout) + layout.gap_across
    places = {}
    for depth, slots in enumerate(levels):
        along = _MARGIN + depth * (_along(layout) + layout.gap_along)
        for lane, slot in enumerate(slots):
            across = _MARGIN + (lane + (most - len(slots)) / 2) * pitch
            x, y = (along, across) if layout.along_x else (across, along)
            places[slot] = (x, y + _FLAG)
    return places


def _path(corners: Sequence[tuple[float, float]], layout: GraphLayout) -> str:
    """Return a smooth line from the end of the first slot through those between to the start of the last."""
    points = []
    for number, (x, y) in enumerate(corners):
        middle = y + layout.height / 2 if layout.along_x else x + layout.width / 2
        start = x if layout.along_x else y
        ends = (start, start + _along(layout))
        points += [(at, middle) for at in ends]
        if number == 0:
            points.pop(0)
        elif number == len(corners) - 1:
            points.pop()
    data = [f"M{_xy(points[0], layout)}"]
    for (a, across), (b, onward) in pairwise(points):
        half = (a + b) / 2
        curve = ((half, across), (half, onward), (b, onward))
        data.append("C" + " ".join(_xy(point, layout) for point in curve))
    return " ".join(data)


def _xy(point: tuple[float, float], layout: GraphLayout) -> str:
    along, across = point
    x, y = (along, across) if layout.along_x else (across, along)
    return f"{x:.1f},{y:.1f}"


def _node(shown: NodeFacts, x: float, y: float, layout: GraphLayout) -> GraphNode:
    reported = ", ".join(f"{fact.name} {fact.value}" for fact in shown.facts)
    return GraphNode(
        x=x,
        y=y,
        width=layout.width,
        height=layout.height,
        mark=shown.mark,
        title=f"{shown.name}: {reported}" if reported else shown.name,
        busy_width=None if shown.busy is None else min(max(shown.busy, 0.0), 1.0) * (layout.width - 24),
        labels=(
            Label(x=x + 12, y=y + 23, kind="name", text=fitted(shown.name, layout.name_columns)),
            *(_in_rows(shown, x, y, layout) if layout.height > NARROW.height else _in_line(shown, x, y, layout)),
        ),
    )


def _in_rows(shown: NodeFacts, x: float, y: float, layout: GraphLayout) -> list[Label]:
    labels = []
    for number, fact in enumerate(shown.facts):
        line = y + 45 + number * 17
        labels.append(Label(x=x + 12, y=line, kind="fact", text=fact.name))
        labels.append(Label(x=x + layout.width - 12, y=line, kind="value", text=fact.value))
    return labels


def _in_line(shown: NodeFacts, x: float, y: float, layout: GraphLayout) -> list[Label]:
    labels = []
    column = (layout.width - 24) / max(len(shown.facts), 1)
    for number, fact in enumerate(shown.facts):
        at = x + 12 + number * column
        labels.append(Label(x=at, y=y + 40, kind="fact", text=fact.name))
        labels.append(Label(x=at, y=y + 56, kind="value left", text=fact.value))
    return labels


CAUSE, AFFECTED = "cause", "affected"
Key = tuple[str, str]


def marks(explanation: Explanation) -> Mapping[Key, str]:
    """Return by (server, model) which models a loud finding names: the first is the cause, others are affected."""
    found: dict[Key, str] = {}
    for finding in explanation.actionable:
        if finding.subject.model is not None:
            found.setdefault((finding.subject.server, finding.subject.model), AFFECTED if found else CAUSE)
    return found


def facts_of(
    evidence: Evidence, item: Anatomy, ensemble: Ensemble, marked: Mapping[Key, str]
) -> Mapping[str, NodeFacts]:
    """Return the facts of every member of an ensemble by its name."""
    return {
        model: _facts(evidence, item, Subject(server=item.server, model=model), marked.get((item.server, model), ""))
        for model in ensemble.models()
    }


def _facts(evidence: Evidence, item: Anatomy, on: Subject, mark: str) -> NodeFacts:
    hides = evidence.is_engine(on) and not evidence.shows_engine_time(on)
    busy = evidence.read(INSTANCE_BUSY_SHARE, on)
    # An engine's instances hand requests over and are free again: their share says nothing of the engine.
    return NodeFacts(
        name=on.model or "",
        facts=tuple(_engine(item, on) if hides else _lanes(evidence, item, on, busy)),
        busy=None if hides else busy.value,
        mark=mark,
    )


def _engine(item: Anatomy, on: Subject) -> Iterator[Fact]:
    yield Fact(name="queue", value=_cell(item, on, Phase.QUEUE))
    yield Fact(name="engine", value=_cell(item, on, Phase.ENGINE))
    yield Fact(name="batches", value="inside")


def _lanes(evidence: Evidence, item: Anatomy, on: Subject, busy: Reading) -> Iterator[Fact]:
    yield Fact(name="queue", value=_cell(item, on, Phase.QUEUE))
    count = evidence.read(INSTANCES, on)
    lanes = "" if count.value is None else f" of {Unit.COUNT.show(count.value)}"
    about = "≈ " if busy.estimated else ""
    yield Fact(name="busy", value="unknown" if busy.value is None else f"{about}{Unit.RATIO.show(busy.value)}{lanes}")
    size, most = evidence.read(BATCH_SIZE, on), evidence.read(MAX_BATCH_SIZE, on)
    limit = "" if most.value is None else f" of {Unit.COUNT.show(most.value)}"
    yield Fact(name="batch", value="unknown" if size.value is None else f"{Unit.COUNT.show(size.value)}{limit}")


def _cell(item: Anatomy, on: Subject, phase: Phase) -> str:
    stage = item.stage(on.model or "")
    return Unit.SECONDS.show(stage.cells.get(phase)) if stage else "unknown"
