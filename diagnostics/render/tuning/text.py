"""A tuning for a terminal: the answer, what it does, what else would do, what was searched, and how to apply it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.tuned import CarriedProposal, TunedProposal
from diagnostics.render.clean import fitted
from diagnostics.render.forecast import words
from diagnostics.render.forecast.text import patch_lines
from diagnostics.render.lines import Style, listed, plain, window_lines, wrapped
from diagnostics.render.tuning import words as told


def tuned_text(found: TunedProposal, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    colour = "red" if found.tuning.best is None else "green" if found.certain else "yellow"
    parts = [
        *(style(line, colour) for line in wrapped(told.headline(found), hang="  ")),
        *wrapped(told.certainty(found), "  "),
        *(line for reason in told.reasons(found) for line in wrapped(reason, "  ", "- ")),
        *wrapped(told.cause(found), "  "),
        "",
        *_before_and_after(found),
        *_runners_up(found),
        *wrapped(told.searched(found)),
        *wrapped(words.against_measurement(found.tuning.baseline, found.measured_mean) if found.load.same else ""),
        *listed("the models by GPU:", list(told.packing(found.packing)) if found.packing else ()),
        *listed("assumes:", found.assumptions),
        *patch_lines(found.patches, style),
        "",
        *window_lines(found.window),
    ]
    return "\n".join(parts) + "\n"


def _before_and_after(found: TunedProposal) -> Iterator[str]:
    shown, now = found.shown, found.tuning.baseline
    if shown is None:
        return
    yield f"  {'':<12}{'now':<30}then (90 %)"
    for name, before, after, change in words.rows(now, shown.performance):
        yield f"  {name:<12}{before:<30}{after:<30}{change}".rstrip()
    yield ""
    if rows := words.stages(now, shown.performance):
        yield f"  {'stage':<24}{'queue':<22}{'batch size':<15}busy share"
        yield from (f"  {fitted(model, 23):<24}{queue:<22}{batch:<15}{busy}" for model, queue, batch, busy in rows)
        yield ""


def _runners_up(found: TunedProposal) -> Iterator[str]:
    rows = told.candidates(found)
    if not rows:
        return
    heads = ("would do as well", "mean", found.tuning.target.statistic, "instances", "GPU")
    yield from _table([heads, *rows])
    yield ""


def _table(rows: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    """Yield rows whose first cell may take lines of its own."""
    for first, *cells in rows:
        *above, last = wrapped(first, "  ", hang="  ") or [""]
        numbers = f"{cells[0]:<11}{cells[1]:<11}{cells[2]:<11}{cells[3]}"
        if len(last) > _FIRST:
            above, last = [*above, last], ""
        yield from above
        yield f"{last:<{_FIRST + 1}}{numbers}".rstrip()


_FIRST = 38


def carried_text(found: CarriedProposal, style: Style = plain) -> str:
    """Return the report on settings by the load that they carry."""
    heads = ("setting", "answered", "load", found.target.statistic, "instances")
    head = wrapped(told.carried_headline(found), hang="  ")
    parts = [
        *(style(line, "green" if found.found else "red") for line in head),
        "",
        *(_table([heads, *told.carried_rows(found)]) if found.found else ()),
        "",
        *wrapped(words.against_measurement(found.baseline, found.measured_mean) if found.load.same else ""),
        *listed("assumes:", found.assumptions),
        *patch_lines(found.patches, style),
        "",
        *window_lines(found.window),
    ]
    return "\n".join(parts) + "\n"
