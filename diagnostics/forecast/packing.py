"""What the GPUs' memory holds of a deployment, and whether more instances would still fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import offered
from diagnostics.forecast.options import work_share
from diagnostics.forecast.performance import Performance
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_MEMORY_FREE, GPU_MEMORY_USED, INSTANCE_GPU_MEMORY
from diagnostics.signals.signal import Scope, Subject


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
        requested = {model: count for model, count in more.items() if count and model in on_gpu}
        if not any(count > 0 for count in requested.values()):
            return True
        if self.free is None:
            return None
        known = sum(count * self.held.get(model, 0.0) for model, count in requested.items())
        bound = sum(max(count, 0.0) * self.at_most.get(model, 0.0) for model, count in requested.items())
        if known > self.free:
            return False
        unknown = any(model in self.unknown and count > 0 for model, count in requested.items())
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


# Ratio. On a device that executions share equally, each takes 1 / (1 − ρ) times as long as alone (Kleinrock, Queueing
# Systems II, 1976): up to half of a card's time in use, no more than twice as long.
MOST_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A model on a GPU.

    Attributes:
        model: its name.
        share: the share of a card's time that its executions take.
        held: bytes that all its instances hold; None where that was not read.
        engine: whether it is an engine that takes what memory it finds free for its cache.

    """

    model: str
    share: float
    held: float | None
    engine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Models on one card, with the share of its time and the bytes that they take; None where one's are not known."""

    models: tuple[str, ...]
    share: float
    held: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How few cards hold all models.

    Attributes:
        cards: the fullest first.
        unread: models of which it was not read what their instances hold.
        overfull: models that take more than `MOST_SHARE` of a card by themselves.

    """

    cards: tuple[Card, ...]
    unread: tuple[str, ...]
    overfull: tuple[str, ...]


def packed(tenants: Sequence[Tenant], card_bytes: float | None) -> Packing:
    """Return the models on as few cards as first-fit decreasing finds, by share of time and by memory.

    Engines stand alone: they take a card's free memory for their cache. At most 11/9 of the fewest cards are needed by
    either measure alone (Johnson 1973).

    Args:
        tenants: the models.
        card_bytes: memory of a card; None where unknown, then memory is not looked at.

    """
    cards: list[list[Tenant]] = [[tenant] for tenant in tenants if tenant.engine]
    engines = len(cards)
    for tenant in sorted((one for one in tenants if not one.engine), key=lambda one: -_size(one, card_bytes)):
        room = next((card for card in cards[engines:] if _fits([*card, tenant], card_bytes)), None)
        if room is None:
            cards.append([tenant])
        else:
            room.append(tenant)
    return Packing(
        cards=tuple(sorted((_packed_card(card) for card in cards), key=lambda card: -card.share)),
        unread=tuple(tenant.model for tenant in tenants if tenant.held is None),
        overfull=tuple(tenant.model for tenant in tenants if tenant.share > MOST_SHARE),
    )


def tenants_of(fitted: Fitted, found: Performance, memory: GpuMemory | None) -> Sequence[Tenant]:
    """Return the models that were seen to work on a GPU, with what they take of it in a forecast.

    A model that only others' requests visit takes what these offer it, one by one. `fitted` is the deployment with the
    change that was forecast.
    """
    rates, stages = offered(fitted.scenario), {stage.model: stage for stage in found.stages}
    made = []
    for model in fitted.scenario.models:
        if not model.demand.get("GPU"):
            continue
        stage = stages.get(model.name)
        alone = rates.get(model.name, 0.0) * model.service.time(1) * model.demand["GPU"]
        held = memory.held.get(model.name) if memory is not None else None
        made.append(
            Tenant(
                model=model.name,
                share=work_share(fitted, model, found, stage) if stage else alone,
                held=None if held is None else held * model.instances,
                engine=model.engine is not None,
            )
        )
    return made


def _size(tenant: Tenant, card_bytes: float | None) -> float:
    """Return the larger of its parts of a card's time and memory."""
    return max(tenant.share / MOST_SHARE, (tenant.held or 0.0) / card_bytes if card_bytes else 0.0)


def _fits(card: Sequence[Tenant], card_bytes: float | None) -> bool:
    held = sum(tenant.held or 0.0 for tenant in card)
    return sum(tenant.share for tenant in card) <= MOST_SHARE and (card_bytes is None or held <= card_bytes)


def _packed_card(tenants: Sequence[Tenant]) -> Card:
    known = [tenant.held for tenant in tenants if tenant.held is not None]
    return Card(
        models=tuple(tenant.model for tenant in tenants),
        share=sum(tenant.share for tenant in tenants),
        held=sum(known) if len(known) == len(tenants) else None,
    )
