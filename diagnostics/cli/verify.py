"""`diag verify`: did a change do what was predicted?"""

from __future__ import annotations

from collections.abc import Collection

import click

from diagnostics.anatomy.anatomy import Anatomy, anatomies
from diagnostics.cli.evidence_source import see_captures
from diagnostics.cli.output import output_option, show
from diagnostics.cli.sources import WindowChoice, two_windows
from diagnostics.diagnosis.proposing import SourceEvidence, entry_of
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, CollectError, UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.verify import Verified, verify
from diagnostics.render.verification.document import verify_document
from diagnostics.render.verification.json import verify_report
from diagnostics.signals.signal import Subject

# Names of entry points in one message.
_NAMED = 3
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
@two_windows
@click.option("--entry", metavar="NAME", help="The ensemble or model to look at; the busiest where not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's random numbers.")
@output_option()
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="never", show_default=True, help="When to exit 1.")
@click.pass_context
def command(
    ctx: click.Context,
    before: WindowChoice,
    after: WindowChoice,
    entry: str | None,
    seed: int,
    output: str,
    fail_on: str,
) -> None:
    """Check whether a change did what was predicted."""
    first, last = _seen(before), _seen(after)
    _refuse_the_same(first, last)
    was, now = same_entry(first.evidence, last.evidence, entry)
    found = verify(first.evidence, was, last.evidence, now, seed=seed)
    windows = (first.window, last.window)
    show(output, lambda: verify_document(found, windows), lambda: verify_report(found, windows))
    ctx.exit(EXIT_FINDINGS if _fails(fail_on, found.judgement.verdict) else EXIT_OK)


def _refuse_the_same(first: SourceEvidence, last: SourceEvidence) -> None:
    """Refuse one window given twice: it shows no difference, whatever was changed."""
    if (first.window.start, first.window.end, first.window.sources) == (
        last.window.start,
        last.window.end,
        last.window.sources,
    ):
        hint = "give one from before the change, then one from after it"
        raise UsageError("are the same window", where="BEFORE AFTER", hint=hint)


def _seen(side: WindowChoice) -> SourceEvidence:
    seen = see_captures([side.path], side.question)
    if seen.window.end <= 0:
        raise CollectError("nothing was read", where=str(side.path), hint="look at it with diag explain")
    return seen


def same_entry(before: Evidence, after: Evidence, name: str | None) -> tuple[Subject, Subject]:
    """Return the same entry in both windows: the named one, else the one called most before of those in both."""
    if name is None:
        called = {_name(item): item.requests for item in anatomies(before) if item.requests}
        later = [_name(item) for item in anatomies(after)]
        shared = [one for one in later if one in called]
        if not shared:
            both = f"before: {_listed(called)}; after: {_listed(later)}"
            raise UsageError(f"no ensemble or model was called in both windows ({both})", where="BEFORE AFTER")
        name = max(shared, key=lambda one: called[one])
    return entry_of(before, name), entry_of(after, name)


def _listed(names: Collection[str]) -> str:
    """Return some names, or that there is none."""
    listed = ", ".join(list(names)[:_NAMED])
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed or "none"


def _name(item: Anatomy) -> str:
    return item.ensemble or item.stages[0].model


def _fails(fail_on: str, verdict: Verified) -> bool:
    failing = {"refuted": {Verified.REFUTED}, "inconclusive": {Verified.REFUTED, Verified.INCONCLUSIVE}}
    return verdict in failing.get(fail_on, set())
