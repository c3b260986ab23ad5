"""Incidents of kinds: topology × fault × look-alike × what can be seen.

A kind is a function of a random generator. The first incident of each can be seen whole or without traces, the
other mostly less well. A third of the kinds is held out (`fixtures/unnamed`): which ones, a draw decided.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from tests.benchmark.kinds import faulty, harmless
from tests.benchmark.kinds.sights import SIGHTS
from tests.benchmark.kinds.world import Incident

Kind = Callable[[random.Random], Incident]
PER_KIND = 2
_HELD_OUT = 1 / 3
_WELL = ("full", "untraced")
_LESS = ("no-statistics", "metrics-15s", "late")
# Of what is over before the recording begins, or stands in the configuration alone, these sights leave nothing.
_NEVER_LATE = frozenset(
    {"chain_count_raised", "loose_reload_blocks", "chain_instances_added_slowly", "chain_cold_reload"}
    | {"many_cold_release", "wrapped_callee_cold_release", "two_outage_and_full"}
)


# Slower than a version that was gone before the recording began: nothing that is seen says so.
_LATE_IS_NORMAL = frozenset({"fork_slower_release", "nested_leaf_slower_release", "versions_slower_one_asked"})
# Only clients saw it.
_CLIENTS_ONLY = frozenset({"chain_instances_added_slowly"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An incident to be recorded: the number in its file's name, its kind, and what it is."""

    number: int
    kind: str
    seed: int
    held_out: bool
    incident: Incident

    @property
    def name(self) -> str:
        """The name of its file, which says nothing about it."""
        return f"kind-{self.number:04}"


def _kinds_of(module: ModuleType) -> Mapping[str, Kind]:
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and not name.startswith("_") and function.__module__ == module.__name__
    }


FAULTS = _kinds_of(faulty)
HARMLESS = _kinds_of(harmless)


def held_out() -> frozenset[str]:
    """Return the kinds that are held out: a third of the faults, and of the look-alikes."""
    chance = random.Random(14)
    chosen: list[str] = []
    for table in (FAULTS, HARMLESS):
        names = sorted(table)
        chosen += chance.sample(names, round(len(names) * _HELD_OUT))
    return frozenset(chosen)


def drawn_all() -> tuple[Drawn, ...]:
    """Return every incident of the benchmark, in an order that says nothing."""
    every = list(_every())
    random.Random(1).shuffle(every)
    hidden = held_out()
    return tuple(
        Drawn(number=number, kind=kind, seed=seed, held_out=kind in hidden, incident=drawn(kind, seed))
        for number, (kind, seed) in enumerate(every, start=1)
    )


def _every() -> Iterator[tuple[str, int]]:
    for kind in sorted({**FAULTS, **HARMLESS}):
        yield from ((kind, seed) for seed in range(PER_KIND))


def drawn(kind: str, seed: int) -> Incident:
    """Return an incident of a kind as it is seen."""
    chance = random.Random(f"{kind} {seed}")
    incident = {**FAULTS, **HARMLESS}[kind](chance)
    return seen(incident, kind, seed, chance)


def seen(incident: Incident, kind: str, seed: int, chance: random.Random) -> Incident:
    """Return the incident with what can be seen of it drawn, and what may be said then."""
    lately = incident.fault_at > 0 and kind not in _NEVER_LATE
    less = ("no-statistics", "metrics-15s", *(("late", "late") if lately else ()))
    sight = chance.choice(_WELL if seed % PER_KIND == 0 else (*less, *less, chance.choice(_WELL)))
    seconds = 52.0 if sight == "metrics-15s" else incident.seconds
    abstain = incident.abstain_ok or sight in _LESS
    unseen = (kind in _LATE_IS_NORMAL and sight == "late") or (kind in _CLIENTS_ONLY and not SIGHTS[sight].clients)
    causes = (*incident.causes, "healthy") if unseen else incident.causes
    return replace(incident, sight=sight, seconds=seconds, abstain_ok=abstain or unseen, causes=causes)
