"""The incidents drawn at random, each replayed once for all tests that look at what was said of it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.benchmark.score import Scored, judged
from tests.builders import explained
from tests.tuning.suggested import Suggested, of_explanation

FOLDER = Path(__file__).parents[2] / "fixtures/benchmark"
LABELS = dict(sorted(json.loads((FOLDER / "labels.json").read_text("utf-8")).items()))


def scored(name: str) -> Scored:
    """Return what was said of an incident, judged by its label."""
    return _replayed(name)[0]


def suggested_for(name: str) -> tuple[Suggested, ...]:
    """Return the changes that were suggested for an incident."""
    return _replayed(name)[1]


@cache
def _replayed(name: str) -> tuple[Scored, tuple[Suggested, ...]]:
    scrapes = tuple(open_capture(FOLDER / f"{name}.tar.xz").scrapes())
    explanation = explained(window_of(scrapes))
    found = tuple(of_explanation(f"benchmark {name}", scrapes, explanation))
    return judged(explanation, name, LABELS[name]), found
