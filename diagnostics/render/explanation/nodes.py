"""What the graph of an ensemble shows of each stage: queue, busy share, batch; and which stage is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.evidence.evidence import Evidence
from diagnostics.render.explanation.graph import Fact, NodeFacts
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.reading import Reading
from diagnostics.signals.settings import INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import BATCH_SIZE
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble

CAUSE, AFFECTED = "cause", "affected"
Key = tuple[str, str]


def marks(explanation: Explanation) -> Mapping[Key, str]:
    """Return by (server, model) which models a loud finding names: the first is the cause, others are affected."""
    found: dict[Key, str] = {}
    for finding in explanation.loud:
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
