"""Pairs of windows to render side by side: slower, faster, unchanged, hostile names, nothing to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from diagnostics.diagnosis.diff import WindowDiff, difference
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config
from tests.render.situations import HOSTILE, pipeline, situations

TWO = model_config("m", groups=({"kind": "KIND_CPU", "count": 2},))
SLOW = Stage("m", rate=38, execution=0.0245, queue=0.17, config=model_config("m"))
FAST = replace(SLOW, queue=0.004, config=TWO)


NAMES = (
    *("faster", "slower", "unchanged", "without configuration", "nothing before", "other models", "many models"),
    *(f"hostile {kind}" for kind in HOSTILE),
)


@cache
def differences() -> Mapping[str, WindowDiff]:
    """Return a difference per pair of windows; none is changed by who renders it."""
    slow, fast = (SyntheticTriton(models=(stage,)) for stage in (SLOW, FAST))
    nothing = situations()["nothing"]
    found = {
        "faster": difference(slow.explain(), fast.explain()),
        "slower": difference(fast.explain(), slow.explain()),
        "unchanged": difference(fast.explain(), fast.explain()),
        "without configuration": difference(
            slow.without(BodyKind.CONFIG).explain(),
            SyntheticTriton(models=(replace(SLOW, rate=10, queue=0.01),)).explain(),
        ),
        "nothing before": difference(nothing, slow.explain()),
        "other models": difference(slow.explain(), pipeline("safety").explain()),
        "many models": difference(situations()["many models"], situations()["many models"]),
    }
    found |= {f"hostile {kind}": _cured(name) for kind, name in HOSTILE.items()}
    assert tuple(found) == NAMES
    return found


def _cured(name: str) -> WindowDiff:
    """Return a pipeline whose stage of that name gets a second instance."""
    sick = pipeline(name, entry=f"e {name}")
    cured = tuple(
        replace(stage, queue=0.004, config=model_config(name, groups=({"kind": "KIND_CPU", "count": 2},)))
        if stage.name == name
        else replace(stage, execution=0.05)
        if stage.config and stage.config.get("ensemble_scheduling")
        else stage
        for stage in sick.models
    )
    return difference(sick.explain(), replace(sick, models=cured).explain())
