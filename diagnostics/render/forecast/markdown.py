"""Forecasts for a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.proposal import Proposal, SweepProposal
from diagnostics.render.explanation.markdown import fenced
from diagnostics.render.forecast import sweep_words, words
from diagnostics.render.markdown_text import escaped, table


def forecast_markdown(proposal: Proposal) -> str:
    """Return the forecast as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(proposal)) + "\n"


def sweep_markdown(proposal: SweepProposal) -> str:
    """Return the sweep as Markdown."""
    return "\n".join(_sweep_lines(proposal)) + "\n"


def _lines(proposal: Proposal) -> Iterator[str]:
    found = proposal.forecast
    yield f"**{escaped(words.headline(proposal))}**"
    if reason := words.cannot_keep_up(found.predicted):
        yield from ("", f"{escaped(reason)}.")
    yield from table(("", "now, by the model", "then (90 %)", "change"), words.rows(found.baseline, found.predicted))
    shown = words.stages(found.baseline, found.predicted)
    if shown:
        yield from table(("stage", "queue", "batch size", "busy share"), shown)
    yield from ("", f"{escaped(words.against_measurement(found.baseline, found.measured_mean))}.")
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(proposal.patches)


def _sweep_lines(proposal: SweepProposal) -> Iterator[str]:
    yield f"**{escaped(sweep_words.headline(proposal))}**"
    yield from table(sweep_words.columns(proposal), sweep_words.rows(proposal))
    yield from ("", f"{escaped(words.against_measurement(proposal.baseline, proposal.measured_mean))}.")
    yield from listed_markdown("Assumes", proposal.assumptions)
    yield from patches_markdown(proposal.patches)


def listed_markdown(title: str, items: Sequence[str]) -> Iterator[str]:
    """Yield a titled list; nothing for an empty one."""
    if items:
        yield from ("", f"### {title}", "", *(f"- {escaped(item)}" for item in items))


def patches_markdown(patches: Sequence[tuple[str, Advice]]) -> Iterator[str]:
    """Yield how to apply each model's change, and its text."""
    for model, one in patches:
        steps = one.steps
        told = [steps.touches, f"apply: {steps.apply}", f"undo: {steps.undo}"] if steps and one.patch else []
        told += [one.note] if one.note else []
        yield from ("", f"### {escaped(model)}", "", *(f"- {escaped(item)}" for item in told))
        if one.patch:
            yield from ("", *fenced(one.patch.text, "diff" if one.patch.base == "file" else "protobuf"))
