"""`diag diff`: what changed between two windows, and which change explains the latency."""

from __future__ import annotations

from dataclasses import replace

import click

from diagnostics.cli.output import output_option, show
from diagnostics.cli.sources import WindowChoice, explain_newest, two_windows, warn
from diagnostics.diagnosis.diagnose import Validation
from diagnostics.diagnosis.diff import WindowDiff, difference
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.errors import EXIT_COLLECT, EXIT_OK
from diagnostics.render.diff.document import diff_document
from diagnostics.render.diff.json import diff_report

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
@output_option()
@click.pass_context
def command(ctx: click.Context, before: WindowChoice, after: WindowChoice, output: str) -> None:
    """Compare two windows: what changed, and which change explains it."""
    found = difference(_explained(before), _explained(after))
    show(output, lambda: diff_document(found), lambda: diff_report(found), lambda: _page(found))
    ctx.exit(EXIT_OK if found.before.window.end > 0 and found.after.window.end > 0 else EXIT_COLLECT)


def _explained(side: WindowChoice) -> Explanation:
    question = replace(side.question, validation=Validation(simulate=False))
    return explain_newest(side.path, question, warn)


def _page(found: WindowDiff) -> str:
    from diagnostics.render.diff.html import diff_html

    return diff_html(found)
