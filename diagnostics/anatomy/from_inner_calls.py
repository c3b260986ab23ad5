"""The anatomy of entries with models that call others from inside their executions, as counters tell.

What a caller computes is its own time and the called models': theirs becomes stages of their own, so that a second is
filed where it is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.signals.inner_calls import InnerCall, InnerCalls

# Reads cut a window's ends differently for a caller and for what it calls.
_AS_MANY = 1.1
StagesOf = Callable[[str], Sequence[Stage]]


def with_inner_calls(item: Anatomy, inner: Mapping[str, InnerCalls], stages_of: StagesOf) -> Anatomy:
    """Return an anatomy with what its models call as stages; as it is where traces show that, or nothing is called.

    Args:
        item: the anatomy of an entry.
        inner: what models call, by the caller.
        stages_of: gives the stages of one request to a model or ensemble.

    """
    if not inner or any(stage.caller for stage in item.stages):
        return item
    found = [one for stage in item.stages for one in _split(stage, inner, stages_of, frozenset())]
    return replace(item, stages=tuple(found)) if len(found) > len(item.stages) else item


def called_alone(items: Sequence[Anatomy], inner: Mapping[str, InnerCalls]) -> list[Anatomy]:
    """Return the anatomies without those of models and ensembles that get no more requests than callers send them."""
    brought: dict[str, float] = {}
    for one in inner.values():
        for call in one.calls:
            brought[call.model] = brought.get(call.model, 0.0) + one.requests * call.times
    return [item for item in items if item.requests > _AS_MANY * brought.get(_name(item), 0.0)]


def _name(item: Anatomy) -> str:
    return item.ensemble or item.stages[0].model


def _split(
    stage: Stage, inner: Mapping[str, InnerCalls], stages_of: StagesOf, above: frozenset[str]
) -> Iterator[Stage]:
    """Yield a stage with what is left of its own time, and behind it those that it calls, and those that these call."""
    calls = inner.get(stage.model)
    if calls is None or stage.model in above:
        yield stage
        return
    held = stage.cells.get(Phase.COMPUTE, 0.0)
    inside = held * min(calls.share, 1.0)
    yield replace(stage, cells={**stage.cells, Phase.COMPUTE: held - inside}, spread={})
    whole = sum(call.times * call.seconds for call in calls.calls if not call.beside)
    for call in calls.calls:
        seconds = 0.0 if call.beside or whole <= 0 else inside * call.times * call.seconds / whole
        for one in _called(stage, call, seconds, stages_of(call.model)):
            yield from _split(one, inner, stages_of, above | {stage.model})


def _called(caller: Stage, call: InnerCall, seconds: float, stages: Sequence[Stage]) -> Iterator[Stage]:
    """Yield the stages of a call, which takes `seconds` of each request of the entry in all."""
    whole = sum(stage.seconds for stage in stages)
    for stage in stages:
        cells = {phase: one * seconds / whole if whole > 0 else 0.0 for phase, one in stage.cells.items()}
        yield Stage(
            model=stage.model,
            cells=cells,
            visits=caller.visits * call.times * stage.visits,
            most_seconds=caller.most_seconds,
            caller=caller.model,
            beside=call.beside or caller.beside,
        )
