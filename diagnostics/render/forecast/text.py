"""The forecast of a change for a terminal: what it does end to end, at each stage, and how to make it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.proposal import Proposal
from diagnostics.render.clean import code_lines, fitted
from diagnostics.render.forecast import words
from diagnostics.render.lines import Style, diff_colour, listed, plain, window_lines, wrapped


def forecast_text(proposal: Proposal, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    found = proposal.forecast
    parts = [
        *(style(line, _colour(proposal)) for line in wrapped(words.headline(proposal), hang="  ")),
        *wrapped(words.cannot_keep_up(found.predicted), "  "),
        "",
        *_table(proposal),
        "",
        *_stages(proposal),
        *wrapped(words.against_measurement(found.baseline, found.measured_mean)),
        *listed("assumes:", found.assumptions),
        *patch_lines(proposal.patches, style),
        "",
        *window_lines(proposal.window),
    ]
    return "\n".join(parts) + "\n"


def _colour(proposal: Proposal) -> str:
    now, then = proposal.forecast.baseline.mean, proposal.forecast.predicted.mean
    if then is None:
        return "red"
    if now is None or then.value < now.value:
        return "green"
    return "" if then.value == now.value else "yellow"


def _table(proposal: Proposal) -> Iterator[str]:
    yield f"  {'':<12}{'now, by the model':<30}then (90 %)"
    for name, now, then, change in words.rows(proposal.forecast.baseline, proposal.forecast.predicted):
        yield f"  {name:<12}{now:<30}{then:<30}{change}".rstrip()


def _stages(proposal: Proposal) -> Iterator[str]:
    shown = words.stages(proposal.forecast.baseline, proposal.forecast.predicted)
    if shown:
        yield f"  {'stage':<24}{'queue':<22}{'batch size':<15}busy share"
    for model, queue, batch, busy in shown:
        yield f"  {fitted(model, 23):<24}{queue:<22}{batch:<15}{busy}"
    if shown:
        yield ""


def patch_lines(patches: Sequence[tuple[str, Advice]], style: Style) -> Iterator[str]:
    """Yield how to apply each model's change, and its text."""
    for model, one in patches:
        yield ""
        if one.steps:
            yield from wrapped(f"{model}: {one.steps.touches}")
        if one.note:
            yield from wrapped(f"note: {one.note}", "  ")
        if one.patch is None:
            continue
        if one.steps:
            yield from wrapped(f"apply: {one.steps.apply}", "  ", hang="  ")
            yield from wrapped(f"undo: {one.steps.undo}", "  ", hang="  ")
        yield ""
        yield from (style(line, diff_colour(line)) for line in code_lines(one.patch.text))
