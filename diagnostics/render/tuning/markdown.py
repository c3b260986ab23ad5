"""A tuning for a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.tuned import CarriedProposal, TunedProposal
from diagnostics.render.forecast import words
from diagnostics.render.forecast.markdown import listed_markdown, patches_markdown
from diagnostics.render.markdown_text import escaped, table
from diagnostics.render.tuning import words as told


def tuned_markdown(found: TunedProposal) -> str:
    """Return the tuning as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found)) + "\n"


def carried_markdown(found: CarriedProposal) -> str:
    """Return settings by the load that they carry as Markdown."""
    return "\n".join(_carried(found)) + "\n"


def _lines(found: TunedProposal) -> Iterator[str]:
    yield f"**{escaped(told.headline(found))}**"
    for said in (told.certainty(found), *told.reasons(found), told.cause(found)):
        if said:
            yield from ("", f"{escaped(said)}.")
    if found.shown is not None:
        after = found.shown.performance
        yield from table(("", "now", "then (90 %)", "change"), words.rows(found.tuning.baseline, after))
        if shown := words.stages(found.tuning.baseline, after):
            yield from table(("stage", "queue", "batch size", "busy share"), shown)
    if rows := told.candidates(found):
        yield from table(("would do as well", "mean", found.tuning.target.statistic, "instances", "GPU"), rows)
    yield from ("", f"{escaped(told.searched(found))}.")
    if found.load.same:
        yield from ("", f"{escaped(words.against_measurement(found.tuning.baseline, found.measured_mean))}.")
    yield from listed_markdown("The models by GPU", list(told.packing(found.packing)) if found.packing else ())
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(found.patches)


def _carried(found: CarriedProposal) -> Iterator[str]:
    yield f"**{escaped(told.carried_headline(found))}**"
    if found.found:
        heads = ("setting", "answered", "load", found.target.statistic, "instances")
        yield from table(heads, told.carried_rows(found))
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(found.patches)
