"""`diag diff`: what changed between two windows, and which change explains the latency."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from diagnostics.cli.options import DURATION
from diagnostics.cli.sources import Question, aloud, explain_captures, looks_like_a_path
from diagnostics.cli.terminal import coloured
from diagnostics.diagnosis.diff import Difference, difference
from diagnostics.errors import EXIT_COLLECT, EXIT_OK, UsageError
from diagnostics.render.diff_json import diff_report
from diagnostics.render.diff_markdown import diff_markdown
from diagnostics.render.diff_report import diff_text

_EPILOG = """\b
Examples:
  diag diff before.tar.xz after.tar.xz
  diag diff incident.tar.xz --at 03:05 --at 03:40 --since 5m
  diag diff before.tar.xz after.tar.xz --output html > diff.html

\b
Two captures, or one and two moments (--at twice, with --since). A live server
only tells of now: record it first.
Exit: 0 compared, 2 usage, 3 a capture could not be read.
"""


@click.command(epilog=_EPILOG)
@click.argument("captures", nargs=-1, required=True, metavar="BEFORE [AFTER]")
@click.option("--at", "moments", multiple=True, metavar="TIME", help="The end of a window (UTC); once for each side.")
@click.option("--since", type=DURATION, help="How long before each moment to look.")
@click.option("--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True)
@click.pass_context
def command(
    ctx: click.Context, captures: tuple[str, ...], moments: tuple[str, ...], since: float | None, output: str
) -> None:
    """Compare two windows: what changed, and which change explains it."""
    found = _compared(captures, moments, since)
    _show(found, output)
    ctx.exit(EXIT_OK if found.before.window.end > 0 and found.after.window.end > 0 else EXIT_COLLECT)


def _show(found: Difference, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(diff_report(found), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(diff_markdown(found), nl=False)
    elif output == "html":
        from diagnostics.render.diff_html import diff_html

        click.echo(diff_html(found), nl=False)
    else:
        click.echo(diff_text(found, coloured), nl=False)


def _compared(captures: Sequence[str], moments: Sequence[str], since: float | None) -> Difference:
    sides = sides_of(captures, moments, since)
    before, after = (explain_captures([path], question, aloud) for path, question in sides)
    return difference(before, after)


def sides_of(captures: Sequence[str], moments: Sequence[str], since: float | None) -> list[tuple[Path, Question]]:
    """Return the capture of each of two windows, and which part of it is meant.

    Raises:
        UsageError: what is given does not name two windows.

    """
    for capture in captures:
        if not looks_like_a_path(capture):
            raise UsageError("only captures can be compared", where=capture, hint="record the server with diag record")
    if len(captures) > 2:
        raise UsageError("two captures at most can be compared", where="BEFORE [AFTER]")
    if len(captures) == 1 and len(moments) != 2:
        raise UsageError(
            "one capture needs two moments", where="--at", hint="name a second capture, or give --at twice"
        )
    if len(moments) not in (0, 2):
        raise UsageError("give a moment for each side, or none", where="--at")
    if len(captures) == 1 and since is None:
        raise UsageError("says how long each side is", where="--since", hint="give it, as in --since 5m")
    question = Question(since=since)
    asked = [replace(question, at=moment) for moment in moments] or [question, question]
    paths = [Path(capture) for capture in ([*captures, *captures] if len(captures) == 1 else captures)]
    return list(zip(paths, asked, strict=True))
