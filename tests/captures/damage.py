"""Damages recorded incidents at random, realistically, and prints whether a wrong cause was named for it.

Run as `python -m tests.captures.damage --count 2000 --seed 1`. Each mutation is drawn from its own number, so that one
line of the output is enough to repeat it: `--only NUMBER`; `--first NUMBER` makes a run in parts. Exits with 1 when a
wrong cause was named with confidence above 0.6, or an error escaped.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache, partial
from pathlib import Path

from diagnostics.checks.check import Layer
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.link import CAUSED_BY
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import Scrape
from tests.captures.damage_bodies import BODY_DAMAGES, Damage
from tests.captures.damage_times import TIME_DAMAGES
from tests.captures.judging import Outcome, judge_actionable
from tests.captures.recorded import FOLDER, Label, explanation_of, label_of

DAMAGES: Mapping[str, Damage] = {**BODY_DAMAGES, **TIME_DAMAGES}
FOLDERS = (FOLDER, FOLDER.parent / "benchmark")
# Below it an answer is a hint: it says itself that it is not sure.
MOST_UNSURE = 0.6
# So many mutations also suffer a second damage: what befalls recordings seldom comes alone.
TWICE = 0.3


class Fate(StrEnum):
    """What became of the answer."""

    SAME = "same"
    ABSTAINED = "abstained"
    CONSEQUENCE = "consequence"
    UNSURE = "wrong, unsure"
    WRONG = "WRONG"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One damaged recording: its number, which recording, which damages, and what became of the answer."""

    number: int
    name: str
    damages: tuple[str, ...]
    fate: Fate
    stated: str = ""

    @property
    def failed(self) -> bool:
        """Whether it must not be."""
        return self.fate in (Fate.WRONG, Fate.ERROR)

    def __str__(self) -> str:
        return f"{self.fate} {self.number} {self.name} ({' + '.join(self.damages)}): {self.stated}"


@cache
def recordings() -> Mapping[str, tuple[Path, Label]]:
    """Return where each recording lies and its label, of both folders, by name."""
    found = {}
    for folder in FOLDERS:
        for name, entry in sorted(json.loads((folder / "labels.json").read_text("utf-8")).items()):
            found[name] = folder / f"{name}.tar.xz", label_of(entry)
    return found


@lru_cache(maxsize=8)
def _scrapes(path: Path) -> tuple[Scrape, ...]:
    return tuple(open_capture(path).scrapes())


def damaged(seed: int, number: int, names: Sequence[str]) -> tuple[str, tuple[str, ...], Sequence[Scrape]]:
    """Return the recording's name, the damages' names and what is left of it, the same for the same seed and number."""
    name = names[number % len(names)]
    draw = random.Random(f"{seed}/{number}")
    chosen = tuple(draw.sample(sorted(DAMAGES), 2 if draw.random() < TWICE else 1))
    scrapes: Sequence[Scrape] = _scrapes(recordings()[name][0])
    for damage in chosen:
        scrapes = DAMAGES[damage](scrapes, draw)
    return name, chosen, scrapes


def mutate(number: int, seed: int, names: Sequence[str]) -> Mutation:
    """Return the fate of one mutation."""
    name, damages, scrapes = "?", tuple[str, ...](), ()
    try:
        name, damages, scrapes = damaged(seed, number, names)
        fate, stated = fate_of(recordings()[name][1], explanation_of(scrapes))
    except Exception as error:  # noqa: BLE001 - whatever escapes is what is sought
        fate, stated = Fate.ERROR, repr(error)
    return Mutation(number=number, name=name, damages=damages, fate=fate, stated=stated)


def fate_of(label: Label, explanation: Explanation) -> tuple[Fate, str]:
    """Return what became of the answer and what was said.

    Findings about the telemetry itself describe the damage, and are no causes. A loud finding that the cause's own
    consequences table explains by the labelled cause is a consequence, where the cause can no longer be seen.
    """
    actionable = [finding for finding in explanation.actionable if finding.layer is not Layer.TELEMETRY]
    stated = ", ".join(
        f"{f.check}({f.subject.model or f.subject.ensemble or f.subject.gpu or ''}) {f.confidence:.2f}"
        for f in actionable
    )
    found = judge_actionable(label, actionable)
    if found.outcome is not Outcome.WRONG:
        return Fate(found.outcome.value), stated
    if not label.healthy and all(_follows(finding, label) for finding in actionable):
        return Fate.CONSEQUENCE, stated
    unlabelled = [finding for finding in actionable if not _follows(finding, label)]
    sure = max(finding.confidence for finding in unlabelled or actionable[:1]) > MOST_UNSURE
    return Fate.WRONG if sure else Fate.UNSURE, f"{found.wrong}; {stated}"


def _follows(finding: Finding, label: Label) -> bool:
    return finding.check in label.allowed or bool(set(CAUSED_BY.get(finding.check, ())) & label.causes)


def _mutations(numbers: Sequence[int], seed: int, names: Sequence[str], workers: int) -> Iterator[Mutation]:
    work = partial(mutate, seed=seed, names=names)
    if workers == 1:
        yield from map(work, numbers)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, numbers, chunksize=8)


def summary(mutations: Sequence[Mutation]) -> Iterator[str]:
    """Yield the table of damages against fates, a line each, and the totals."""
    yield f"{'damage':<28}" + "".join(f"{fate:>15}" for fate in Fate)
    for damage in sorted(DAMAGES):
        fates = Counter(mutation.fate for mutation in mutations if damage in mutation.damages)
        yield f"{damage:<28}" + "".join(f"{fates[fate]:>15}" for fate in Fate)
    fates = Counter(mutation.fate for mutation in mutations)
    yield f"{f'{len(mutations)} mutations':<28}" + "".join(f"{fates[fate]:>15}" for fate in Fate)


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage, diagnose and print; return 1 when a cause was surely wrong or an error escaped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one mutation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutation")
    requested = parser.parse_args(arguments)
    numbers = range(requested.first, requested.first + requested.count) if requested.only is None else [requested.only]
    mutations = []
    for mutation in _mutations(numbers, requested.seed, tuple(recordings()), requested.workers):
        mutations.append(mutation)
        if mutation.failed or mutation.fate is Fate.UNSURE or requested.only is not None:
            print(mutation, flush=True)
    for line in summary(mutations):
        print(line)
    return 1 if any(mutation.failed for mutation in mutations) else 0


if __name__ == "__main__":
    sys.exit(main())
