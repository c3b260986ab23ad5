"""What is said of a verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.forecast.performance import Estimate
from diagnostics.forecast.verify import DifferenceEstimate, Measure, Verification, Verified, difference
from diagnostics.render.document import Block, Document, Headline, Points, Sentence, Table, TableColumn
from diagnostics.render.forecast import document as forecast_words
from diagnostics.render.plain import window_text
from diagnostics.units import Unit

_show = Unit.SECONDS.show
UNCHANGED = "configuration and versions: the same"


def headline(found: Verification) -> str:
    """Return what became of the prediction, in one sentence."""
    if not found.measures:
        return f"{found.entry}: {found.judgement.reason}"
    first = found.measures[0]
    return f"{found.entry}: measured mean {_from_to(first)}: {found.judgement.reason}"


def _from_to(one: Measure) -> str:
    if one.before is None:
        return f"{_show(one.after.value)} after"
    return f"{_show(one.before.value)} → {_show(one.after.value)}{forecast_words.relative(one.before, one.after)}"


def next_step(found: Verification) -> str:
    """Return how long to measure for a decision; empty where that would not help, or need not."""
    needed = found.judgement.seconds_needed
    return "" if needed is None else f"next: measure for {span(needed)} on each side, at the same load"


def span(seconds: float) -> str:
    """Return a length to measure for: rounded up to whole minutes from two of them on."""
    if seconds < 120:
        return f"{-(-seconds // 10) * 10:.0f} s"
    minutes = -(-seconds // 60)
    return f"{minutes:.0f} min" if minutes < 120 else f"{-(-minutes // 60):.0f} h"


def changed(found: Verification) -> list[str]:
    """Return what differs between the windows, a phrase each."""
    return [f"{one.model} {one}" for one in found.changes]


def load(found: Verification) -> str:
    """Return how much arrives before and after."""
    before, after = (rate.unit.show(rate.value) for rate in found.rates)
    text = f"load {before} → {after}"
    return f"{text}: predicted at the new one" if found.load_differs else f"{text}, not certainly different"


def rows(one: Measure) -> list[tuple[str, str]]:
    """Return the numbers of one statistic, by what they are."""
    kept = "cannot keep up" if one.unchanged is None else forecast_words.estimate(one.unchanged)
    return [
        ("before", forecast_words.estimate(one.before) if one.before is not None else "not measured"),
        ("after", forecast_words.estimate(one.after)),
        ("predicted", forecast_words.estimate(one.predicted)),
        *([] if one.unchanged == one.before else [("without the change", kept)]),
        ("change measured", _change(one.before, one.after)),
    ]


def judged(one: Measure) -> str:
    """Return what is said of one statistic."""
    return f"{one.judgement.verdict.value}: {one.judgement.reason}"


def no_larger(found: Verification) -> str:
    """Return the largest difference that the measurement allows, where nothing was changed; else empty."""
    if found.changes or found.load_differs or not found.measures or found.measures[0].before is None:
        return ""
    first = found.measures[0]
    assert first.before is not None
    most = difference(first.after, first.before).largest
    return f"no difference larger than {_show(most)} in the mean (90 %)" if isfinite(most) else ""


def _change(before: Estimate | None, after: Estimate) -> str:
    if before is None:
        return "unknown"
    off = difference(after, before)
    return f"{_signed(off.value)} ({_ends(off)})"


def _ends(off: DifferenceEstimate) -> str:
    if isfinite(off.low) and isfinite(off.high):
        return f"{_signed(off.low)} to {_signed(off.high)}"
    if isfinite(off.low):
        return f"{_signed(off.low)} or more"
    return f"{_signed(off.high)} or less" if isfinite(off.high) else "not bounded"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{_show(abs(seconds))}" if seconds else _show(0.0)


def blocks(found: Verification) -> str:
    """Return what the intervals rest on."""
    if found.block_seconds is None or not isfinite(found.block_seconds):
        return ""
    return f"intervals: 90 %, from blocks of time longer than its queues remember ({_show(found.block_seconds)})"


_COLOURS = {Verified.CONFIRMED: "green", Verified.REFUTED: "red", Verified.INCONCLUSIVE: "yellow"}


def verify_document(found: Verification, windows: tuple[WindowFacts, WindowFacts]) -> Document:
    """Return what became of the prediction."""
    verdict = found.judgement.verdict
    return [
        Headline(verdict=verdict.value, text=headline(found), colour=_COLOURS[verdict]),
        Sentence(text=_reversed(found, windows), under=2),
        Points(items=list(_reported(found)), marked=False),
        *(block for one in found.measures for block in _measure(one, found)),
        Sentence(text=blocks(found)),
        Points(title="the prediction assumes", items=found.assumptions if found.measures else ()),
        sides([window_text(one) for one in windows]),
    ]


def _reversed(found: Verification, windows: tuple[WindowFacts, WindowFacts]) -> str:
    """Return that the windows may have been given in the wrong order; empty where the prediction holds in this one."""
    before, after = windows
    untimed = before.untimed or after.untimed
    if untimed or after.end > before.start or found.judgement.verdict is Verified.CONFIRMED:
        return ""
    return "AFTER was recorded before BEFORE: if that is not meant, give them in the other order"


def _reported(found: Verification) -> Iterator[str]:
    yield no_larger(found)
    yield next_step(found)
    if found.changes:
        yield f"changed: {'; '.join(changed(found))}"
    else:
        yield UNCHANGED
    yield load(found)


def _measure(one: Measure, found: Verification) -> Iterator[Block]:
    named = [(one.statistic if at == 0 else "", *row) for at, row in enumerate(rows(one))]
    columns = (TableColumn(width=6), TableColumn(width=20), TableColumn(head="90 %"))
    yield Table(columns=columns, rows=named, headed=False)
    if one.judgement.reason != found.judgement.reason:
        yield Sentence(text=judged(one), under=8)


def sides(when: Sequence[str]) -> Table:
    """Return when two windows were, before a change and after it."""
    columns = (TableColumn(head="window", width=8), TableColumn(head="when", wraps=True))
    return Table(columns=columns, rows=list(zip(("before", "after"), when, strict=True)), indent=0, headed=False)
