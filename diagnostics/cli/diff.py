"""`diag diff`: what changed between two windows, and which change explains the latency."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from diagnostics.cli.options import coloured
from diagnostics.cli.sources import WindowChoice, explain_newest, two_windows, warn
from diagnostics.diagnosis.diagnose import Validation
from diagnostics.diagnosis.diff import WindowDiff, difference
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.errors import EXIT_COLLECT, EXIT_OK
from diagnostics.render.diff.json import diff_report
from diagnostics.render.diff.text import diff_markdown, diff_text

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
@two_windows
@click.option("--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True)
@click.pass_context
def command(ctx: click.Context, before: WindowChoice, after: WindowChoice, output: str) -> None:
    """Compare two windows: what changed, and which change explains it."""
    found = difference(_explained(before), _explained(after))
    _show(found, output)
    ctx.exit(EXIT_OK if found.before.window.end > 0 and found.after.window.end > 0 else EXIT_COLLECT)


def _explained(side: WindowChoice) -> Explanation:
    question = replace(side.question, validation=Validation(simulate=False))
    return explain_newest(side.path, question, warn)


def _show(found: WindowDiff, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(diff_report(found), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(diff_markdown(found), nl=False)
    elif output == "html":
        from diagnostics.render.diff.html import diff_html

        click.echo(diff_html(found), nl=False)
    else:
        click.echo(diff_text(found, coloured), nl=False)
