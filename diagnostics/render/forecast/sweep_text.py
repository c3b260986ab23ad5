"""A sweep for a terminal: a table, bars of mean and p95, and the knee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diagnostics.diagnosis.proposal import SweepProposal
from diagnostics.render.clean import fitted
from diagnostics.render.forecast import sweep_words, words
from diagnostics.render.forecast.text import patch_lines
from diagnostics.render.lines import WIDTH, Style, listed, plain, window_lines, wrapped

_BAR_COLUMNS = 52
_VALUE_COLUMNS = 8


class Ink(NamedTuple):
    """What bars are drawn with: full columns and the eighths that end them, and what lies between mean and p95."""

    full: str
    eighths: str
    tail: str


BLOCKS = Ink("█", " ▏▎▍▌▋▊▉", "░")
LETTERS = Ink("#", " ", ".")


def sweep_text(proposal: SweepProposal, style: Style = plain, ink: Ink = BLOCKS) -> str:
    """Return the report; `ink` draws the bars: blocks, or letters for terminals that have no others."""
    parts = [
        *wrapped(sweep_words.headline(proposal), hang="  "),
        "",
        *_table(proposal, style),
        "",
        *_plot(proposal, style, ink),
        "",
        *wrapped(words.against_measurement(proposal.baseline, proposal.measured_mean)),
        *listed("assumes:", proposal.assumptions),
        *patch_lines(proposal.patches, style),
        "",
        *window_lines(proposal.window),
    ]
    return "\n".join(parts) + "\n"


_SETTING_WIDTHS = (_VALUE_COLUMNS, 29, 9, 10, 9, 6)
_LOAD_WIDTHS = (_VALUE_COLUMNS, 29, 9, 10, 12, 6)


def _table(proposal: SweepProposal, style: Style) -> Iterator[str]:
    widths = _SETTING_WIDTHS if proposal.sweep.model is not None else _LOAD_WIDTHS
    yield _row(sweep_words.columns(proposal), widths)
    for at, row in enumerate(sweep_words.rows(proposal)):
        yield style(_row(row, widths), "green" if at == proposal.sweep.knee else "")


def _row(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    *shown, remark = cells
    text = "".join(f"{fitted(cell, width - 1):<{width}}" for cell, width in zip(shown, widths, strict=True))
    # The plot says it again.
    return (text if len(text) + len(remark) > WIDTH else f"{text}{remark}").rstrip()


def _plot(proposal: SweepProposal, style: Style, ink: Ink) -> Iterator[str]:
    yield f"{'':<{_VALUE_COLUMNS}}{ink.full} mean  {ink.tail} to p95"
    points = proposal.sweep.points
    for at, (point, bar) in enumerate(zip(points, sweep_words.bars(points, _BAR_COLUMNS), strict=True)):
        drawn = words.NO_KEEPING_UP if bar is None else _drawn(*bar, ink)
        line = f"{fitted(point.value, _VALUE_COLUMNS - 1):<{_VALUE_COLUMNS}}{drawn}"
        remark = sweep_words.remark(proposal, at)
        yield style(f"{line}  {remark}".rstrip(), "green" if at == proposal.sweep.knee else "")


def _drawn(mean: float, p95: float, ink: Ink) -> str:
    whole, part = int(mean), int((mean % 1) * len(ink.eighths))
    head = ink.full * whole + (ink.eighths[part] if part else "")
    return (head or ink.full) + ink.tail * max(round(p95) - max(len(head), 1), 0)
