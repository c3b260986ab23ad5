"""Which models fit one GPU together, and which need one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.gpu_memory import GpuMemory
from diagnostics.forecast.load import offered
from diagnostics.forecast.menu import work_share
from diagnostics.forecast.performance import Performance

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
        cards=tuple(sorted((_card(card) for card in cards), key=lambda card: -card.share)),
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


def _card(tenants: Sequence[Tenant]) -> Card:
    known = [tenant.held for tenant in tenants if tenant.held is not None]
    return Card(
        models=tuple(tenant.model for tenant in tenants),
        share=sum(tenant.share for tenant in tenants),
        held=sum(known) if len(known) == len(tenants) else None,
    )
