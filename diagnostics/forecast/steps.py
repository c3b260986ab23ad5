"""An entry as steps: which model comes after which, and what passes between and behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.tuning.simulation.scenario import EntryGraph, ModelVisit
from diagnostics.window.graph import Ensemble

_HANDED_OVER = (Phase.QUEUE, Phase.INPUT, Phase.COMPUTE, Phase.OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What a model that answers from a thread of its own hides.

    Attributes:
        seconds: mean time in its engine.
        scv: squared coefficient of variation of that time; 0 where unknown.
        simulated: whether its engine's iterations are simulated; else the time passes unseen.
        shown: whether the time is that of the row's compute.

    """

    seconds: float
    scv: float
    simulated: bool
    shown: bool


def entry_of(item: Anatomy, ensemble: Ensemble | None, hidden: Mapping[str, Behind]) -> EntryGraph:
    """Return an anatomy's entry.

    Gaps are the mean ones of the requests' critical path where traces show them; what no stage accounts for passes
    before the first steps.

    Args:
        item: where the time of the entry's requests goes.
        ensemble: its graph; None for a model that is called directly.
        hidden: what models that answer from their own threads hide.

    """
    models = [step.model for step in ensemble.steps] if ensemble else [item.stages[0].model]
    edges = ensemble.edges if ensemble else ((),)
    steps = []
    for position, model in enumerate(models):
        before = tuple(i for i, followers in enumerate(edges) if position in followers)
        step = step_of(model, item.stage(model), hidden.get(model))
        steps.append(replace(step, after=before))
    left = max(item.unattributed_seconds - sum(stage.gap_seconds for stage in item.stages), 0.0)
    begun = (step if step.after else replace(step, gap_seconds=step.gap_seconds + left) for step in steps)
    return EntryGraph(name=item.ensemble or models[0], steps=tuple(begun))


def with_calls(
    entry: EntryGraph, calls: Mapping[str, Sequence[str]], step_of: Callable[[str], ModelVisit]
) -> EntryGraph:
    """Return an entry with a step for each call that its models make from inside their executions.

    Args:
        entry: its graph.
        calls: the models that an execution calls, in order, by the caller.
        step_of: gives a called model's step.

    """
    made: list[ModelVisit] = []

    def add(step: ModelVisit, above: frozenset[str]) -> int:
        position = end = len(made)
        made.append(step)
        for model in calls.get(step.model, ()):
            if model not in above:
                end = add(replace(step_of(model), caller=position, after=(end,)), above | {model})
        return end

    ends: list[int] = []
    for step in entry.steps:
        ends.append(add(replace(step, after=tuple(ends[before] for before in step.after)), frozenset({step.model})))
    return replace(entry, steps=tuple(made))


def step_of(model: str, stage: Stage | None, behind: Behind | None) -> ModelVisit:
    """Return a visit to a model, with what passes before it and what the model hides."""
    gap = stage.gap_seconds / max(stage.visits, 1.0) if stage else 0.0
    if behind is None:
        return ModelVisit(model=model, gap_seconds=gap)
    if behind.simulated:
        rows = (phase for phase in _HANDED_OVER if not (behind.shown and phase is Phase.COMPUTE))
        handed = sum(stage.cells.get(phase, 0.0) for phase in rows) / max(stage.visits, 1.0) if stage else 0.0
        return ModelVisit(model=model, gap_seconds=gap + handed)
    return ModelVisit(model=model, gap_seconds=gap, tail_seconds=behind.seconds, tail_scv=behind.scv)
