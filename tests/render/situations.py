"""Explanations to render: every verdict, hostile names, missing values, infinite ends, long diffs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from diagnostics.diagnosis.explanation import BlindSpot, Explanation, WindowFacts, explain
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.signals.signal import Missing, Reading
from diagnostics.units import Unit
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, ensemble_config, explained, model_config

HOSTILE = {
    "markup": "<script>alert(1)</script>",
    "quotes": "\"'`&amp;</title></style>",
    "reordering": "a\u202egnp.exe\u2066b",
    "control": "bell\x07escape\x1b[31mred\x00\ttab",
    "lines": "two\nlines\r\nand\u2028more\u0085still",
    "long": "n" * 200,
    "wide": "模型" * 60,
    "markdown": "](http://evil.example) **x** | `y` @here ~~z~~ # h",
    "template": "{{ 7 * 7 }}{% raw %}",
    "surrogate": "lone\ud800half",
}


def pipeline(slow: str, entry: str = "chat") -> SyntheticTriton:
    """Return a server with an ensemble of two branches whose stage `slow` lacks instances."""
    steps = (
        ("first", ("in",), ("a",)),
        (slow, ("a",), ("b",)),
        ("side", ("a",), ("c",)),
        ("last", ("b", "c"), ("out",)),
    )
    queued = Stage(slow, rate=38, execution=0.0245, queue=0.17, config=model_config(slow))
    fast = [Stage(name, rate=38, execution=0.004, config=model_config(name)) for name in ("first", "side", "last")]
    whole = Stage(entry, rate=38, execution=0.21, overhead=0.001, config=ensemble_config(entry, *steps))
    # Names that no label of a metrics page could hold come through the statistics.
    return SyntheticTriton(models=(*fast, queued, whole)).without(BodyKind.METRICS)


NAMES = (
    *("degraded", "healthy", "no clear cause", "idle", "one read", "nothing", "many models", "infinite ends"),
    *("missing value", "hostile gaps", *(f"hostile {kind}" for kind in HOSTILE)),
)


@cache
def situations() -> Mapping[str, Explanation]:
    """Return an explanation per situation; none is changed by who renders it."""
    fast = Stage("fast", rate=20, execution=0.01, config=model_config("fast"))
    queued = Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))
    degraded = pipeline("safety").explain()
    found = {
        "degraded": degraded,
        "healthy": SyntheticTriton(models=(fast,)).explain(),
        "no clear cause": SyntheticTriton(models=(queued,)).without(BodyKind.CONFIG).explain(),
        "idle": SyntheticTriton(models=(replace(fast, rate=0.2),)).explain(),
        "one read": SyntheticTriton(models=(fast,)).explain(reads=1),
        "nothing": explained(window_of([])),
        "many models": SyntheticTriton(
            models=tuple(
                Stage(f"model-{i}", rate=5, execution=0.01, config=model_config(f"model-{i}")) for i in range(40)
            )
        ).explain(),
        "infinite ends": with_line(degraded, Reading.of(0.2, Unit.SECONDS, "statistics", low=0.1, high=float("inf"))),
        "missing value": with_line(degraded, Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS), met=None),
        "hostile gaps": _with_gaps(),
    }
    hostile = {f"hostile {kind}": _named(name) for kind, name in HOSTILE.items()}
    assert (*found, *hostile) == NAMES
    return {**found, **hostile}


def _named(name: str) -> Explanation:
    """Return an explanation of a model with this name; rendering does not rely on its being refused when it is read."""
    with (
        patch("diagnostics.wire.server.why_no_name", return_value=""),
        patch("diagnostics.window.normalize._is_named", return_value=True),
    ):
        return pipeline(name, entry=f"e {name}").explain()


def with_line(explanation: Explanation, reading: Reading, met: bool | None = True) -> Explanation:
    """Return the explanation with one more line of evidence in its first finding."""
    line = LedgerLine(
        signal="stated_for_a_test_with_a_name_that_is_long", reading=reading, limit=0.1, sign=">=", met=met
    )
    first, *others = explanation.findings
    return replace(explanation, findings=(replace(first, evidence=(*first.evidence, line)), *others))


def _with_gaps() -> Explanation:
    gaps = tuple(BlindSpot(what=f"<b>{name}</b>", why=name, fix=name) for name in HOSTILE.values())
    fast = Stage("fast", rate=20, execution=0.01, config=model_config("fast"))
    evidence = SyntheticTriton(models=(fast,)).evidence()
    facts = WindowFacts(start=1_000_000.0, end=1_000_060.0, sources=tuple(HOSTILE.values()))
    return explain(evidence, facts, blind_spots=gaps)


def as_json(value: object) -> object:
    """Return what a reader of the JSON sees."""
    return json.loads(json.dumps(value, allow_nan=False))
