"""Two windows side by side as one HTML file: the same frame, bars and tables as an explanation's page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.anatomy.cells import Anatomy
from diagnostics.diagnosis.diff import EntryDifference, WindowDiff
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.diff import document as words
from diagnostics.render.html_page import Waterfall, page, waterfall

_TONES = {"slower": "critical", "faster": "healthy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryComparison:
    """An entry with a request of each window as bars over one axis."""

    entry: EntryDifference
    waterfalls: tuple[Waterfall, ...]


def diff_html(found: WindowDiff) -> str:
    """Return the report as a page; names from servers cannot break out of it."""
    outcome = words.outcome(found)
    return page(
        "diff.html",
        found=found,
        stated=words,
        outcome=outcome,
        tone=_TONES.get(outcome, "info"),
        headline=words.headline(found.entries[0]) if found.entries else words.NOTHING,
        compared=tuple(_compared(found)),
        others=found.entries[words.ENTRIES_SHOWN :],
    )


def _compared(found: WindowDiff) -> Iterator[EntryComparison]:
    for entry in found.entries[: words.ENTRIES_SHOWN]:
        sides = [(side, _anatomy(side, entry.name)) for side in (found.before, found.after)]
        longest = max(item.mean_seconds for _, item in sides)
        titles = ("Before: a request on average", "After: a request on average")
        drawn = (
            waterfall(title, item, side.evidence.graph(item.server).ensembles.get(item.ensemble or ""), longest)
            for title, (side, item) in zip(titles, sides, strict=True)
        )
        yield EntryComparison(entry=entry, waterfalls=tuple(drawn))


def _anatomy(side: Explanation, name: str) -> Anatomy:
    return next(item for item in side.anatomy if name == (item.ensemble or item.stages[0].model))
