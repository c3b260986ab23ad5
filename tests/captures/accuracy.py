"""Prints how right the diagnosis is on every recorded incident, whole, with less in it, and told otherwise.

Run as `python -m tests.captures.accuracy`. Exits with 1 when anything is wrong.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from tests.captures.judging import Judgement, Outcome, judge, judge_whole
from tests.captures.recorded import Label, explanation_of, labels, scrapes_of
from tests.captures.variations import ABLATIONS, FALSE_CLOCKS, PERTURBATIONS, renamed

_SHORT = {Outcome.SAME: "same", Outcome.ABSTAINED: "abst", Outcome.WRONG: "WRONG"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One capture: what is said of it whole, and the judgement of that and of each variation by name."""

    name: str
    label: Label
    verdict: str
    top: str
    confidence: float | None
    whole: Judgement
    ablations: dict[str, Judgement]
    perturbations: dict[str, Judgement]

    def wrong(self) -> Iterator[str]:
        """Yield what is wrong, a line each."""
        everything = {"whole": self.whole, **self.ablations, **self.perturbations}
        for variation, found in everything.items():
            if found.outcome is Outcome.WRONG:
                yield f"{self.name} ({variation}): {found.wrong}"


def ablated(name: str, ablation: str) -> Judgement:
    """Return the judgement of a capture with something left out."""
    return judge(labels()[name], explanation_of(ABLATIONS[ablation](scrapes_of(name))))


def perturbed(name: str, perturbation: str) -> Judgement:
    """Return the judgement of a capture told otherwise: the answer must stay as it is, or be none on a false clock."""
    label = labels()[name]
    if perturbation == "renamed" and label.model:
        label = replace(label, model=renamed(label.model))
    judged = judge if perturbation in FALSE_CLOCKS else judge_whole
    return judged(label, explanation_of(PERTURBATIONS[perturbation](scrapes_of(name))))


def row_of(name: str) -> Row:
    """Return everything about one capture."""
    label, explanation = labels()[name], explanation_of(scrapes_of(name))
    first = explanation.actionable[0] if explanation.actionable else None
    return Row(
        name=name,
        label=label,
        verdict=str(explanation.verdict),
        top=f"{first.check} {first.subject.model or ''}".strip() if first else "",
        confidence=first.confidence if first else None,
        whole=judge_whole(label, explanation),
        ablations={ablation: ablated(name, ablation) for ablation in ABLATIONS},
        perturbations={perturbation: perturbed(name, perturbation) for perturbation in PERTURBATIONS},
    )


def _line(row: Row) -> Sequence[str]:
    return (
        row.name.replace("-handed", ""),
        "/".join(sorted(row.label.causes)) or "healthy",
        row.verdict,
        row.top or "-",
        "-" if row.confidence is None else f"{row.confidence:.2f}",
        _SHORT[row.whole.outcome],
        *(_SHORT[found.outcome] for found in (*row.ablations.values(), *row.perturbations.values())),
    )


def _table(rows: Sequence[Row]) -> Iterator[str]:
    head = ("capture", "label", "verdict", "top finding", "conf.", "whole", *ABLATIONS, *PERTURBATIONS)
    lines = [head, *(_line(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _totals(rows: Sequence[Row]) -> Iterator[str]:
    sick = [row for row in rows if not row.label.healthy]
    decidable = [row for row in sick if row.label.decidable]
    hits = sum(1 for row in decidable if row.whole.outcome is Outcome.SAME)
    alarms = sum(1 for row in rows if row.label.healthy and row.top)
    healthy = len(rows) - len(sick)
    yield f"top-1 hits {hits} of {len(decidable)} incidents with a check; {len(sick) - len(decidable)} have none yet"
    yield f"false alarms {alarms} of {healthy} healthy captures"
    for word, all_found in (
        ("ablations", [found for row in rows for found in row.ablations.values()]),
        ("perturbations", [found for row in rows for found in row.perturbations.values()]),
    ):
        count = Counter(found.outcome for found in all_found)
        yield f"{word}: " + ", ".join(f"{count[outcome]} {outcome}" for outcome in Outcome) + f" of {len(all_found)}"


def main(workers: int = 1) -> int:
    """Print the table and return the exit code; `workers` processes share the captures."""
    rows = _rows(workers)
    wrong = [line for row in rows for line in row.wrong()]
    for line in (*_table(rows), "", *_totals(rows), *(f"WRONG {line}" for line in wrong)):
        print(line)
    return 1 if wrong else 0


def _rows(workers: int) -> list[Row]:
    if workers == 1:
        return [row_of(name) for name in labels()]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(row_of, labels()))


if __name__ == "__main__":
    sys.exit(main(workers=os.cpu_count() or 1))
