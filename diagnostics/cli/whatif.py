"""`diag whatif`: what a change of settings or load would do, before anyone makes it."""

from __future__ import annotations

import json
import sys

import click

from diagnostics.cli.evidence_source import EvidenceSource, evidence_options, see
from diagnostics.cli.options import coloured
from diagnostics.cli.proposing import ChangeRequest, proposed, swept
from diagnostics.diagnosis.proposal import Proposal, SweepProposal
from diagnostics.errors import EXIT_OK, UsageError
from diagnostics.render.forecast import text as drawing
from diagnostics.render.forecast.json import forecast_report, sweep_report
from diagnostics.render.forecast.text import forecast_markdown, forecast_text, sweep_markdown

_EPILOG = """\b
Examples:
  diag whatif http://triton:8000 --set safety.instance_group.count=3
  diag whatif slow.tar.xz --set safety.instance_group.count=3 --rate 2x
  diag whatif slow.tar.xz --set embedder.dynamic_batching=true \\
    --set embedder.dynamic_batching.max_queue_delay_microseconds=500
  diag whatif slow.tar.xz --set embedder.dynamic_batching=none
  diag whatif slow.tar.xz --sweep safety.instance_group.count=1..8
  diag whatif slow.tar.xz --sweep rate=10..60/s:10 --output json

\b
SOURCE is what diag explain takes: a server, a capture, a Prometheus, or a
--history. Numbers are from a simulation of Triton's schedulers that was fitted to
it; intervals hold with 90 %. Times are the server's own.
Exit: 0 predicted, 2 usage, 3 could not collect, or not enough to predict from.
"""


@click.command(epilog=_EPILOG)
@click.option("--set", "settings", multiple=True, metavar="MODEL.SETTING=VALUE", help="A setting; none removes it.")
@click.option("--rate", metavar="2x|40/s", help="How much arrives, as a multiple of now or at the entry.")
@click.option("--clients", type=click.IntRange(min=1), metavar="N", help="How many clients wait for their answers.")
@click.option("--sweep", metavar="NAME=VALUES", help="Try several values of a setting, of rate or of clients.")
@click.option("--entry", metavar="NAME", help="The ensemble or model to forecast; the busiest where not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's random numbers.")
@click.option("--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@evidence_options
@click.pass_context
def command(
    ctx: click.Context,
    source: EvidenceSource,
    settings: tuple[str, ...],
    rate: str | None,
    clients: int | None,
    sweep: str | None,
    entry: str | None,
    seed: int,
    output: str,
) -> None:
    """Predict what a change of settings or load would do."""
    if not (settings or rate or clients or sweep):
        raise UsageError("say what to change", where="--set, --rate, --clients, --sweep", hint="see diag whatif --help")
    request = ChangeRequest(settings=settings, rate=rate, clients=clients, entry=entry, seed=seed)
    seen = see(source)
    if sweep is None:
        _show(proposed(seen, request), output)
    else:
        _show_sweep(ctx, swept(seen, request, sweep), output)
    ctx.exit(EXIT_OK)


def _show(found: Proposal, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(forecast_report(found), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(forecast_markdown(found), nl=False)
    else:
        click.echo(forecast_text(found, coloured), nl=False)


def _show_sweep(ctx: click.Context, found: SweepProposal, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(sweep_report(found), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(sweep_markdown(found), nl=False)
    else:
        click.echo(drawing.sweep_text(found, coloured, _ink(ctx)), nl=False)


def _ink(ctx: click.Context) -> drawing.Ink:
    """Return blocks where the terminal can show them and is not asked to be plain."""
    plain = ctx.color is False or (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return drawing.LETTERS if plain else drawing.BLOCKS
