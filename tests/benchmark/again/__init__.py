"""Incidents of kinds that nobody had named before: other mechanisms, clients and look-alikes than `kinds` draws.

Each kind is recorded twice: once seen whole or without traces, once mostly less well. After each recording of a fault
single changes are tried on the same load, and the label is the change that helped (`record.label_of`).
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from tests.benchmark.again import faults, lookalikes
from tests.benchmark.again.record import OddIncident

OddKind = Callable[[random.Random], OddIncident]
PER_KIND = 2
_WELL = ("full", "untraced")
_LESS = frozenset({"no-statistics", "metrics-15s", "late", "metrics-and-clients"})
# Only clients see these: the server counts nothing of the time, so where they are not asked all is well.
_CLIENTS_ONLY = frozenset(
    {"lookup_and_connection_each_time", "bodies_that_trickle", "streams_read_slowly"}
) | frozenset({"responses_in_order", "text_through_one_thread"})
_CLIENTS_ASKED = frozenset({"full", "late", "metrics-and-clients"})
# What is read each quarter of a minute takes that long to be read four times.
_SLOWLY = frozenset({"metrics-15s", "all-15s"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OddDrawn:
    """An incident to be recorded: the number in its file's name, its kind, and what it is."""

    number: int
    kind: str
    seed: int
    incident: OddIncident

    @property
    def name(self) -> str:
        """The name of its file, which says nothing about it."""
        return f"kind-{self.number:04}"


def kinds_of(module: ModuleType) -> Mapping[str, OddKind]:
    """Return the kinds that are functions of a module."""
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and not name.startswith("_") and function.__module__ == module.__name__
    }


FAULTS = kinds_of(faults)
LOOKALIKES = kinds_of(lookalikes)


def drawn_all() -> tuple[OddDrawn, ...]:
    """Return every incident, in an order that says nothing."""
    return drawn_of({**FAULTS, **LOOKALIKES}, "again", 31, _CLIENTS_ONLY)


def drawn_of(
    table: Mapping[str, OddKind],
    salt: str,
    order: int,
    clients_only: frozenset[str],
    less: tuple[str, ...] = ("no-statistics", "metrics-15s", "late"),
) -> tuple[OddDrawn, ...]:
    """Return every incident of a table of kinds.

    Args:
        table: the kinds.
        salt: what makes their draws differ from those of another table.
        order: the seed of their order.
        clients_only: kinds of which only clients see anything.
        less: what may be seen of the second incident of a kind, besides what is seen of the first; `late` where the
            fault begins in the middle.
    """
    every = [(kind, seed) for kind in sorted(table) for seed in range(PER_KIND)]
    random.Random(order).shuffle(every)
    return tuple(
        OddDrawn(
            number=number, kind=kind, seed=seed, incident=_drawn(table[kind], kind, seed, salt, clients_only, less)
        )
        for number, (kind, seed) in enumerate(every, start=1)
    )


def _drawn(
    function: OddKind, kind: str, seed: int, salt: str, clients_only: frozenset[str], less: tuple[str, ...]
) -> OddIncident:
    """Return an incident of a kind as it is seen, and what may be said then."""
    chance = random.Random(f"{salt} {kind} {seed}")
    incident = function(chance)
    fewer = tuple("no-statistics" if sight == "late" and not incident.fault_at else sight for sight in less)
    fewer = (*fewer, chance.choice(_WELL))
    sight = chance.choice(_WELL if seed % PER_KIND == 0 else fewer)
    further: dict[str, Any] = {"sight": sight}
    if sight in _SLOWLY:
        further["seconds"] = 52.0
    if sight in _LESS or (sight == "all-15s" and incident.fault_at):
        further["abstain_ok"] = True
    if kind in clients_only and sight not in _CLIENTS_ASKED:
        further |= {"abstain_ok": True, "causes": ("healthy",)}
    return replace(incident, **further)
