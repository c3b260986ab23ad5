"""What the GPUs' memory holds of a deployment, and whether more instances would still fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.fitted import Fitted
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_MEMORY_FREE, GPU_MEMORY_USED
from diagnostics.signals.gpu_residency import INSTANCE_GPU_MEMORY
from diagnostics.signals.subject import Scope, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """Memory in bytes.

    Attributes:
        free: of the card that has least left, what nobody uses; None where it was not read.
        total: what that card has.
        held: by model on a GPU, what one instance holds; a model of which that is unknown is absent.
        at_most: by model of which only a bound is known, the bound.
        unknown: models on a GPU of which neither is known.

    """

    free: float | None
    total: float | None
    held: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()

    def fits(self, more: Mapping[str, float]) -> bool | None:
        """Say whether so many more instances per card, by model, fit into what is free; None where that is not known.

        A model that is not on a GPU takes nothing of it; one that gets fewer gives its memory back.
        """
        on_gpu = {*self.held, *self.at_most, *self.unknown}
        asked = {model: count for model, count in more.items() if count and model in on_gpu}
        if not any(count > 0 for count in asked.values()):
            return True
        if self.free is None:
            return None
        known = sum(count * self.held.get(model, 0.0) for model, count in asked.items())
        bound = sum(max(count, 0.0) * self.at_most.get(model, 0.0) for model, count in asked.items())
        if known > self.free:
            return False
        unknown = any(model in self.unknown and count > 0 for model, count in asked.items())
        return True if known + bound <= self.free and not unknown else None


def gpu_memory(evidence: Evidence, fitted: Fitted) -> GpuMemory | None:
    """Return what is known of the GPUs' memory; None where no model is on a GPU."""
    models = {model.name: Subject(server=fitted.server, model=model.name) for model in fitted.scenario.models}
    on_gpu = {name: on for name, on in models.items() if evidence.read(ON_GPU, on).value}
    if not on_gpu:
        return None
    read = {name: evidence.read(INSTANCE_GPU_MEMORY, on) for name, on in on_gpu.items()}
    free, total = _card(evidence, fitted.server)
    return GpuMemory(
        free=free,
        total=total,
        held={name: one.value for name, one in read.items() if one.value is not None and not one.estimated},
        at_most={name: one.value for name, one in read.items() if one.value is not None and one.estimated},
        unknown=frozenset(name for name, one in read.items() if one.value is None),
    )


def _card(evidence: Evidence, server: str) -> tuple[float | None, float | None]:
    """Return free and all bytes of the card that has least left."""
    cards = [
        (free, free / (1 - used))
        for on in evidence.subjects(Scope.GPU)
        if on.server == server
        and (free := evidence.read(GPU_MEMORY_FREE, on).value) is not None
        and (used := evidence.read(GPU_MEMORY_USED, on).value) is not None
        and used < 1
    ]
    return min(cards, default=(None, None))
