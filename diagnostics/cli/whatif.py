"""`diag whatif`: what a change of settings or load would do, before anyone makes it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import click

from diagnostics.cli.evidence_source import EvidenceSource, evidence_options, see
from diagnostics.cli.output import output_option, show
from diagnostics.diagnosis.proposing import ChangeRequest, proposed, swept
from diagnostics.errors import EXIT_OK, UsageError
from diagnostics.forecast.what_if import WhatIf
from diagnostics.render.forecast.document import forecast_document, sweep_document
from diagnostics.render.forecast.json import forecast_report, sweep_report

_EPILOG = """\b
Examples:
  diag whatif http://triton:8000 --set safety.instance_group.count=3
  diag whatif slow.tar.xz --set safety.instance_group.count=3 --rate 2x
  diag whatif slow.tar.xz --set embedder.dynamic_batching=true \\
    --set embedder.dynamic_batching.max_queue_delay_microseconds=500
  diag whatif slow.tar.xz --set embedder.dynamic_batching=none
  diag whatif http://vllm:8000 --set engine.max_num_seqs=16 --output-tokens 2x
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
@click.option("--prompt-tokens", metavar="2x|800", help="How long an engine's prompts are, against now or on average.")
@click.option("--output-tokens", metavar="2x|800", help="How long its answers are, against now or on average.")
@click.option("--sweep", metavar="NAME=VALUES", help="Try several values of a setting, of rate or of clients.")
@click.option("--entry", metavar="NAME", help="The ensemble or model to forecast; the busiest where not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's random numbers.")
@output_option()
@evidence_options
@click.pass_context
def command(
    ctx: click.Context,
    source: EvidenceSource,
    settings: tuple[str, ...],
    rate: str | None,
    clients: int | None,
    prompt_tokens: str | None,
    output_tokens: str | None,
    sweep: str | None,
    entry: str | None,
    seed: int,
    output: str,
) -> None:
    """Predict what a change of settings or load would do."""
    if not (settings or rate or clients or sweep or prompt_tokens or output_tokens):
        raise UsageError("say what to change", where="--set, --rate, --clients, --sweep", hint="see diag whatif --help")
    request = ChangeRequest(
        settings=settings,
        rate=rate,
        clients=clients,
        entry=entry,
        seed=seed,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )
    seen = see(source)
    if sweep is None:
        one = proposed(seen, request)
        show(output, lambda: forecast_document(one), lambda: forecast_report(one))
    else:
        several = swept(seen, request, sweep, _progress)
        show(output, lambda: sweep_document(several), lambda: sweep_report(several))
    ctx.exit(EXIT_OK)


@contextmanager
def _progress(cases: Sequence[WhatIf]) -> Iterator[Iterable[WhatIf]]:
    """Yield the cases, with a bar on a terminal's standard error that goes ahead with them."""
    if not sys.stderr.isatty():
        yield cases
        return
    with click.progressbar(cases, label="diag: simulating", file=sys.stderr) as each:
        yield each
