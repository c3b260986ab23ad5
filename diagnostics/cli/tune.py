"""`diag tune`: the smallest change that meets an objective, searched over all stages at once."""

from __future__ import annotations

from pathlib import Path

import click

from diagnostics.cli.evidence_source import EvidenceSource, evidence_options, see
from diagnostics.cli.output import output_option, show
from diagnostics.cli.tuning import Aim, carrying, tuned
from diagnostics.diagnosis.proposal import CarriedProposal, TunedProposal
from diagnostics.diagnosis.proposing import ChangeRequest
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, CollectError, UsageError, reason_of
from diagnostics.forecast.options import Minimize
from diagnostics.render.tuning.confirming import confirming
from diagnostics.render.tuning.document import carried_document, tuned_document
from diagnostics.render.tuning.json import carried_report, tuned_report

FAIL_ON = ("change", "unmet", "never")
_EPILOG = """\b
Examples:
  diag tune http://triton:8000 --objective "p95 < 200ms"
  diag tune slow.tar.xz --objective "p95 < 200ms" --rate 2x
  diag tune slow.tar.xz --objective "mean < 150ms" --minimize gpu-share
  diag tune slow.tar.xz --objective "p95 < 200ms" --export confirm.sh
  diag tune slow.tar.xz --objective "p95 < 200ms" --maximize throughput \\
    --vary safety.instance_group.count=1..4

\b
SOURCE is what diag explain takes. Searched are instances, batching and windows of
all stages, or what --vary names; without --minimize no stage loses an instance,
with it one may. Numbers are from the simulation that diag whatif uses; without a
load test, so confirm them: --export writes one (.sh for perf_analyzer, .yaml for
Model Analyzer), diag verify judges the change once it is made.
Exit: 0 answered, 1 something at --fail-on, 2 usage, 3 could not collect, or not
enough to predict from.
"""
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=_EPILOG)
@click.option("--objective", required=True, metavar="LIMIT", help="Like 'p95 < 200ms'; of the mean, p50, p95 or p99.")
@click.option("--minimize", type=click.Choice([one.value for one in Minimize]), help="What the answer takes least of.")
@click.option("--maximize", type=click.Choice(["throughput"]), help="Look for the most load within the objective.")
@click.option("--vary", multiple=True, metavar="MODEL.SETTING=VALUES", help="Choose from these values only.")
@click.option("--rate", metavar="2x|40/s", help="For another load: a multiple of now, or requests/s at the entry.")
@click.option("--clients", type=click.IntRange(min=1), metavar="N", help="For another number of waiting clients.")
@click.option("--entry", metavar="NAME", help="The ensemble or model to tune; the busiest where not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's random numbers.")
@click.option("--export", type=_FILE, metavar="FILE", help="Write the load test that confirms it: .sh or .yaml.")
@output_option()
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="never",
    show_default=True,
    help="When to exit 1: a change is needed, or none would do.",
)
@evidence_options
@click.pass_context
def command(
    ctx: click.Context,
    source: EvidenceSource,
    objective: str,
    minimize: str | None,
    maximize: str | None,
    vary: tuple[str, ...],
    rate: str | None,
    clients: int | None,
    entry: str | None,
    seed: int,
    export: Path | None,
    output: str,
    fail_on: str,
) -> None:
    """Find the smallest change of settings that meets an objective."""
    if maximize and minimize:
        raise UsageError("look for different things", where="--maximize, --minimize", hint="give one of them")
    request = ChangeRequest(rate=rate, clients=clients, entry=entry, seed=seed)
    aim = Aim(objective=objective, minimize=Minimize(minimize) if minimize else None, vary=vary)
    if export is not None and export.suffix not in (".sh", ".yaml", ".yml"):
        raise UsageError("is neither .sh nor .yaml", where=f"--export {export}", hint="its suffix says what it is for")
    if export is not None and not export.parent.is_dir():
        raise UsageError("there is no such folder", where=f"--export {export}", hint="make it, or name another one")
    found = carrying(see(source), request, aim) if maximize else tuned(see(source), request, aim)
    _show(found, output)
    if export is not None:
        # Last: what cannot be written shall not cost the answer.
        _write(export, confirming(found, export.suffix))
    ctx.exit(_exit_code(found, fail_on))


def _write(export: Path, test: str) -> None:
    try:
        export.write_text(test, encoding="utf-8")
    except OSError as error:
        hint = "name another file"
        raise CollectError(f"cannot be written: {reason_of(error)}", where=f"--export {export}", hint=hint) from None


def _show(found: TunedProposal | CarriedProposal, output: str) -> None:
    if isinstance(found, TunedProposal):
        show(output, lambda: tuned_document(found), lambda: tuned_report(found))
    else:
        show(output, lambda: carried_document(found), lambda: carried_report(found))


def _exit_code(found: TunedProposal | CarriedProposal, fail_on: str) -> int:
    if isinstance(found, TunedProposal):
        met, change = found.tuning.best is not None, bool(found.moves)
    else:
        met = bool(found.found)
        change = met and bool(found.moves[0])
    failed = {"change": not met or change, "unmet": not met, "never": False}[fail_on]
    return EXIT_FINDINGS if failed else EXIT_OK
