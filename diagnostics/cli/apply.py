"""`diag apply --canary`: try a change on one server, and keep it only if the measurement confirms it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import click

from diagnostics.canary import Canary, CanaryOutcome
from diagnostics.cli.evidence_source import EvidenceSource, see
from diagnostics.cli.interrupting import interruptible
from diagnostics.cli.options import DURATION, source_options
from diagnostics.cli.output import show
from diagnostics.cli.sources import WindowOptions, looks_like_a_path
from diagnostics.cli.verify import same_entry
from diagnostics.diagnosis.change_options import changes_given, models_on
from diagnostics.diagnosis.diagnose import diagnose
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, proposed
from diagnostics.errors import (
    EXIT_COLLECT,
    EXIT_FINDINGS,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    CollectError,
    UsageError,
)
from diagnostics.forecast.verify import Verification, verify
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.plain import clean
from diagnostics.render.verification.document import verify_document
from diagnostics.signals.signal import Scope
from diagnostics.tuning.changes import ConfigChange
from exporters.sinks.model_control import TritonModelControl
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import is_prometheus
from exporters.sources.triton import discover
from exporters.sources.triton_http import HttpApi

_EPILOG = """\b
Examples:
  diag apply --canary http://triton:8000
  diag apply --canary triton:8000 --set safety.instance_group.count=2
  diag apply --canary triton:8000 --check single-instance-serialization --window 2m
  diag apply --canary triton:8000 --set embedder.dynamic_batching=true --yes

\b
SOURCE is one server, read before and after for --window each; afterwards for up
to --longest. Without --set, the change of the first cause is tried.
The configuration goes with the request that loads the model (model control mode
explicit). The repository is not written, and a restart goes back to it.
The change is kept if the mean certainly fell, as was predicted or more. It is
taken back if not, if anything fails, on Ctrl-C or SIGTERM.
Exit: 0 kept, 1 taken back, 2 usage or not agreed to, 3 could not be applied, or
not be taken back, 130 interrupted and taken back.
"""


@click.command(epilog=_EPILOG, short_help="Try a change on one server; take it back unless it helps.")
@click.argument("server", metavar="SOURCE")
@click.option("--canary", is_flag=True, help="Required: apply to this one server, measure, and take back.")
@click.option("--set", "settings", multiple=True, metavar="MODEL.SETTING=VALUE", help="What to try.")
@click.option("--check", metavar="CHECK", help="Try the change of this check's finding, not of the first.")
@click.option("--entry", metavar="NAME", help="The ensemble or model to measure; the busiest where not given.")
@click.option("--window", type=DURATION, default=60.0, help="How long to measure before and after.  [default: 60s]")
@click.option("--longest", type=DURATION, default=300.0, help="How long, if that decides nothing.  [default: 5m]")
@click.option("--settle", type=DURATION, default=15.0, help="What waited before is answered meanwhile.  [default: 15s]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@source_options
@click.pass_context
def command(
    ctx: click.Context,
    server: str,
    canary: bool,
    settings: tuple[str, ...],
    check: str | None,
    entry: str | None,
    window: float,
    longest: float,
    settle: float,
    yes: bool,
    options: SourceOptions,
) -> None:
    """Try a change on one server, and take it back unless latency falls."""
    if not canary:
        raise UsageError("is missing: a change is only tried, and taken back unless it helps", where="--canary")
    if settings and check:
        raise UsageError("both say what to try", where="--set, --check", hint="leave out one of them")
    source, control = _one_server(server, window, options), _control(server, options)
    click.echo(f"measuring {server} for {window:g} s before the change", err=True)
    before = see(source)
    changes = _given(before, settings) if settings else _suggested(before, check)
    proposal = proposed(before, ChangeRequest(changes=changes, entry=entry))
    show("text", lambda: forecast_document(proposal), dict)
    if not yes and not click.confirm(f"Try this on {control.url}? Its repository is not written."):
        ctx.exit(EXIT_USAGE)
    trial = Canary(
        control=control,
        changes=changes,
        measure=lambda seconds: _measured(before, replace(source, window=seconds), entry, settle),
        seconds=window,
        longest=max(longest, window),
        report=lambda text: click.echo(clean(text), err=True),
    )
    with interruptible():
        result = trial.run()
    click.echo(clean(f"{result.outcome.value}: {result.reason}; {_NEXT[result.outcome]}"))
    ctx.exit(_EXITS[result.outcome] if not result.interrupted else EXIT_INTERRUPTED)


def _one_server(server: str, window: float, options: SourceOptions) -> EvidenceSource:
    if is_prometheus(server) or looks_like_a_path(server):
        raise UsageError(f"{server} is no server", where="SOURCE", hint="name its HTTP port, as in triton:8000")
    return EvidenceSource(
        names=(server,),
        question=WindowOptions(),
        window=window,
        history=None,
        deployment=None,
        config_file=None,
        options=options,
    )


def _measured(before: SourceEvidence, source: EvidenceSource, entry: str | None, settle: float) -> Verification:
    """Return what a second window shows against the first; it is printed, too."""
    click.echo(f"waiting {settle:g} s, then measuring for {source.window:.0f} s after the change", err=True)
    time.sleep(settle)
    after = see(source)
    was, now = same_entry(before.evidence, after.evidence, entry)
    found = verify(before.evidence, was, after.evidence, now)
    show("text", lambda: verify_document(found, (before.window, after.window)), dict)
    return found


_EXITS = {
    CanaryOutcome.KEPT: EXIT_OK,
    CanaryOutcome.TAKEN_BACK: EXIT_FINDINGS,
    CanaryOutcome.STRANDED: EXIT_COLLECT,
}
_NEXT = {
    CanaryOutcome.KEPT: "it holds until the next restart: apply the patch to the repository to keep it for good",
    CanaryOutcome.TAKEN_BACK: "the server runs with the configuration it had",
    CanaryOutcome.STRANDED: "a restart goes back to the repository, which was not written",
}


def _control(server: str, options: SourceOptions) -> TritonModelControl:
    """Return what loads models of the server.

    Raises:
        CollectError: it is not found, or its HTTP port is closed.

    """
    found = discover(server, options)
    try:
        if not isinstance(found.api, HttpApi):
            raise CollectError("its HTTP API was not found", where=server, hint="name the HTTP port, as in triton:8000")
        return TritonModelControl(found.api.url, found.api.options)
    finally:
        found.close()


def _given(before: SourceEvidence, settings: Sequence[str]) -> tuple[ConfigChange, ...]:
    (server,) = {on.server for on in before.evidence.subjects(Scope.MODEL)}
    return changes_given(settings, models_on(before.evidence, server))


def _suggested(before: SourceEvidence, check: str | None) -> tuple[ConfigChange, ...]:
    """Return the change of the first finding that has one, or of a check's.

    Raises:
        UsageError: there is none, or a forecast speaks against it.

    """
    findings = diagnose(before.evidence).findings
    for finding in findings:
        change = finding.suggestion.change if finding.suggestion else None
        if change is None or (check is not None and finding.check != check):
            continue
        if before.evidence.server_kind(finding.subject) is not None:
            continue  # an option of another server than Triton: no repository holds it
        if finding.doubt:
            raise UsageError(
                f"{finding.check}: {finding.doubt}", hint="name the change with --set to try it all the same"
            )
        return (change,)
    reason = f"{check} suggests no change" if check else "no cause was found that a setting of a model changes"
    raise UsageError(reason, hint="name a change with --set MODEL.SETTING=VALUE")
