"""Prints what is left of each recorded incident's answer when a source of it was never read, or sources were rarely.

Run as `python -m tests.captures.drops [--every] [--only DROP]`. Exits with 1 when a fault reads as healthy, a wrong
cause is named, or a healthy recording gets a loud finding.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from tests.benchmark.score import Scored, judged
from tests.captures.recorded import explanation_of
from tests.captures.variations import Scrapes, Variation, without, without_steps

FIXTURES = Path(__file__).parents[2] / "fixtures"
FOLDERS = ("captures", "benchmark", "held_out", "kinds")
# The usual interval of a Prometheus, which has the metrics page alone.
PROMETHEUS_SECONDS = 15.0
RESULTS = ("hit", "extra", "abstained", "missed", "wrong", "silent", "alarm")
FORBIDDEN = ("missed", "wrong", "alarm")


# What a reader asks for again and again; the others are read once, or hold their own times.
REQUESTED_AGAIN = (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX, BodyKind.NVML, BodyKind.DCGM, BodyKind.HOST)


def read_every(seconds: float, *kinds: BodyKind) -> Variation:
    """Return the variation that reads every source, or only these, no more often than every so many seconds."""

    def thinned(scrapes: Scrapes) -> Scrapes:
        last: dict[tuple[BodyKind, str, str], float] = {}
        kept = []
        for scrape in sorted((s for s in scrapes if not kinds or s.kind in kinds), key=lambda s: s.at):
            key = scrape.kind, scrape.server, scrape.name
            if scrape.kind in REQUESTED_AGAIN and key in last and scrape.at - last[key] < seconds:
                continue
            last[key] = scrape.at
            kept.append(scrape)
        return kept

    return thinned


DROPS: Mapping[str, Variation] = {
    "no-statistics": without(BodyKind.STATISTICS),
    "no-configuration": without(BodyKind.CONFIG, BodyKind.REPOSITORY),
    "no-ensemble-steps": without_steps,
    "no-traces": without(BodyKind.TRACES),
    "all-every-15s": read_every(PROMETHEUS_SECONDS),
    "metrics-every-15s": read_every(PROMETHEUS_SECONDS, BodyKind.METRICS),
    "metrics-every-5s": read_every(5.0, BodyKind.METRICS),
}


@cache
def recordings() -> Mapping[str, tuple[Path, Mapping[str, object]]]:
    """Return the path and the label of every recorded incident, by name."""
    found = {}
    for folder in FOLDERS:
        labels = json.loads((FIXTURES / folder / "labels.json").read_text("utf-8"))
        found |= {name: (FIXTURES / folder / f"{name}.tar.xz", label) for name, label in sorted(labels.items())}
    return found


def without_a_source(name: str, drops: Sequence[str] = tuple(DROPS)) -> dict[str, Scored]:
    """Return what is made of a recording, by what was dropped of it."""
    path, label = recordings()[name]
    scrapes = tuple(open_capture(path).scrapes())
    return {drop: judged(explanation_of(DROPS[drop](scrapes)), name, label) for drop in drops}


def _line(drop: str, scored: Scored) -> str:
    confidence = "" if scored.confidence is None else f" {scored.confidence:.2f}"
    return f"{scored.name:<36}{scored.kind:<26}{drop:<20}{scored.result:<11}{scored.stated}{confidence}"


def _table(counts: Mapping[str, Counter[str]]) -> Iterator[str]:
    yield f"{'dropped':<20}" + "".join(f"{result:>11}" for result in RESULTS)
    for drop, of_drop in counts.items():
        yield f"{drop:<20}" + "".join(f"{of_drop[result]:>11}" for result in RESULTS)
    yield f"{'all':<20}" + "".join(f"{sum(one[result] for one in counts.values()):>11}" for result in RESULTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.captures.drops", description=__doc__)
    parser.add_argument("--every", action="store_true", help="a line for each recording, not only the wrong ones")
    parser.add_argument("--only", action="append", choices=[*DROPS], help="drop only this; repeatable")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    drops = tuple(given.only or DROPS)
    names = list(recordings())
    counts: dict[str, Counter[str]] = {drop: Counter() for drop in drops}
    with ProcessPoolExecutor(given.workers) as pool:
        for found in pool.map(without_a_source, names, [drops] * len(names)):
            for drop, scored in found.items():
                counts[drop][scored.result] += 1
                if given.every or scored.result in FORBIDDEN:
                    print(_line(drop, scored), flush=True)
    for line in _table(counts):
        print(line)
    return 1 if any(of_drop[result] for of_drop in counts.values() for result in FORBIDDEN) else 0


if __name__ == "__main__":
    sys.exit(main())
