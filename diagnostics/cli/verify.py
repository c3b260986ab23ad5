"""`diag verify`: did a change do what was predicted?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from diagnostics.anatomy.anatomy import Anatomy, anatomies
from diagnostics.cli.diff import sides_of
from diagnostics.cli.evidence_source import Seen, see_captures
from diagnostics.cli.options import DURATION
from diagnostics.cli.proposing import entry_of
from diagnostics.cli.sources import Question
from diagnostics.cli.terminal import coloured
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, CollectError, UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.verification import Verified
from diagnostics.forecast.verify import Verification, verify
from diagnostics.render.verify_json import verify_report
from diagnostics.render.verify_text import verify_markdown, verify_text
from diagnostics.signals.subject import Subject

FAIL_ON = ("refuted", "inconclusive", "never")
_EPILOG = """\b
Examples:
  diag verify before.tar.xz after.tar.xz
  diag verify before.tar.xz after.tar.xz --fail-on refuted
  diag verify incident.tar.xz --at 03:05 --at 03:40 --since 5m
  diag verify before.tar.xz after.tar.xz --output json

\b
Two captures, or one and two moments (--at twice, with --since). What the first
window's model predicts of the second one's settings, at its load, is held against
what was measured; intervals are of 90 %, from blocks of time.
Exit: 0 nothing at --fail-on, 1 something (inconclusive means refuted, too),
2 usage, 3 a capture could not be read.
"""


@click.command(epilog=_EPILOG)
@click.argument("captures", nargs=-1, required=True, metavar="BEFORE [AFTER]")
@click.option("--at", "moments", multiple=True, metavar="TIME", help="The end of a window (UTC); once for each side.")
@click.option("--since", type=DURATION, help="How long before each moment to look.")
@click.option("--entry", metavar="NAME", help="The ensemble or model to look at; the busiest where not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's random numbers.")
@click.option("--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="never", show_default=True, help="When to exit 1.")
@click.pass_context
def command(
    ctx: click.Context,
    captures: tuple[str, ...],
    moments: tuple[str, ...],
    since: float | None,
    entry: str | None,
    seed: int,
    output: str,
    fail_on: str,
) -> None:
    """Check whether a change did what was predicted."""
    before, after = (_seen(path, question) for path, question in sides_of(captures, moments, since))
    was, now = _entries(before.evidence, after.evidence, entry)
    found = verify(before.evidence, was, after.evidence, now, seed=seed)
    _show(found, (before.window, after.window), output)
    ctx.exit(EXIT_FINDINGS if _fails(fail_on, found.judgement.verdict) else EXIT_OK)


def _seen(path: Path, question: Question) -> Seen:
    seen = see_captures([path], question)
    if seen.window.end <= 0:
        raise CollectError("nothing was read", where=str(path))
    return seen


def _entries(before: Evidence, after: Evidence, name: str | None) -> tuple[Subject, Subject]:
    """Return the same entry in both windows: the named one, else the one called most before of those in both."""
    if name is None:
        called = {_name(item): item.requests for item in anatomies(before) if item.requests}
        shared = [one for one in map(_name, anatomies(after)) if one in called]
        if not shared:
            raise UsageError("no ensemble or model was called in both windows", where="BEFORE AFTER")
        name = max(shared, key=lambda one: called[one])
    return entry_of(before, name), entry_of(after, name)


def _name(item: Anatomy) -> str:
    return item.ensemble or item.stages[0].model


def _fails(fail_on: str, verdict: Verified) -> bool:
    failing = {"refuted": {Verified.REFUTED}, "inconclusive": {Verified.REFUTED, Verified.INCONCLUSIVE}}
    return verdict in failing.get(fail_on, set())


def _show(found: Verification, windows: tuple[WindowFacts, WindowFacts], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(verify_report(found, windows), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(verify_markdown(found, windows), nl=False)
    else:
        click.echo(verify_text(found, windows, coloured), nl=False)
