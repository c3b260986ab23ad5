"""Incidents of a real engine on a card, recorded and labelled by what helped when it was tried."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmark.engine.incidents import FAULTS, LOOKALIKES, Fault
from tests.benchmark.record import helped_most

SEED = 19
KINDS = {kind.__name__: kind for kind in (*FAULTS, *LOOKALIKES)}
# A draw decided which kinds nobody diagnosed before they were scored.
HIDDEN = frozenset(
    {
        *("budget_small", "graphs_captured_for_clients", "tokenizer_alone", "engine_away_while_it_loads"),
        *("long_prompts_stall_others", "long_prompts_in_pieces_for_others", "long_prompts_in_pieces"),
        *("stranger_seldom", "many_at_once", "long_prompts_now_and_then"),
    }
)
# A change that leaves more than this share of what clients wait did not help.
HELPED = 0.7
# One that leaves more than this was not felt at all. Between the two, naming it and calling it healthy are both right.
FELT = 0.9
# Of a healthy recording the 95th percentile is at most so many times the median.
CALM = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFault:
    """An incident of a kind; `names` are those of its recording and of the one after its first change."""

    kind: str
    fault: Fault
    names: tuple[str, str]
    seed: int


def drawn_all(repeats: int = 1) -> tuple[DrawnFault, ...]:
    """Return every incident, first one of each kind, under names that say nothing."""
    count = 2 * repeats * len(KINDS)
    numbers = iter(random.Random(f"engine/{SEED}").sample(range(1, count + 1), count))
    return tuple(
        DrawnFault(
            kind=name,
            fault=kind(random.Random(f"{SEED}/{name}/{seed}")),
            names=(f"engine-{next(numbers):04}", f"engine-{next(numbers):04}"),
            seed=seed,
        )
        for seed in range(repeats)
        for name, kind in KINDS.items()
    )


def label_of(fault: Fault, before: float, tried: Mapping[str, float]) -> dict[str, object]:
    """Return the label of an incident: the names of the changes that helped most when they were tried.

    Args:
        fault: the incident and its changes.
        before: the mean latency that clients felt in it, milliseconds.
        tried: what they felt after each change, by what was changed.
    """
    if not tried:
        return {"cause": "healthy"}
    names = {change.what: change.names for change in fault.changes}
    helpful = {what for what, ms in tried.items() if ms < HELPED * before}
    felt = {what for what, ms in tried.items() if ms < FELT * before}
    most = [what for what in helped_most(before, tried) if what in (helpful or felt)]
    cause = {*(name for what in most for name in names[what]), *(() if helpful else ("healthy",))}
    label: dict[str, object] = {
        "cause": sorted(cause),
        "also": sorted({*fault.also, *(name for what in helpful for name in names[what])}),
        "mean_ms": round(before, 1),
        "mean_ms_after": {what: round(ms, 1) for what, ms in sorted(tried.items())},
    }
    if fault.targets:
        label["model"] = sorted(fault.targets)
    vain = [change.lanes_of for change in fault.changes if change.lanes_of and change.what not in helpful]
    if vain:
        label["no_gain"] = vain
    if not helpful:
        label["abstain_ok"] = True
    return label


def is_calm(p50_ms: float, p95_ms: float, errors: int) -> bool:
    """Return whether clients saw a healthy deployment: nothing failed, and the slowest were about as fast as others."""
    return not errors and p95_ms <= CALM * p50_ms
