"""`diag explain`: why is it slow, and what to change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.asking import Asked, ask
from diagnostics.cli.fail_on import FAIL_ON, fails
from diagnostics.cli.names import nearest
from diagnostics.cli.options import DURATION, source_options
from diagnostics.cli.running_service import RunningService, url_option
from diagnostics.cli.sources import Question, aloud, explain_captures, looks_like_a_path
from diagnostics.cli.stored import explain_stored
from diagnostics.cli.terminal import coloured
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, UsageError
from diagnostics.render.json_report import report
from diagnostics.render.markdown import markdown
from diagnostics.render.text import text
from diagnostics.render.why_not import account
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_address import is_prometheus

_EPILOG = """\b
Examples:
  diag explain http://triton:8000
  diag explain slow.tar.xz --repository ./models
  diag explain slow.tar.xz --at 03:12 --since 5m
  diag explain --history data --at 03:12 --since 20m
  diag explain triton:8000 --objective 'p95 < 200ms' --fail-on warning
  diag explain slow.tar.xz --why-not capacity-exceeded
  diag explain --at 03:12 --since 20m
  diag explain 'prometheus+http://prometheus:9090?selector={job="triton"}' --since 10m

\b
SOURCE is any port of a Triton, its metrics page, a capture, or a Prometheus that
scrapes Tritons (Thanos, Mimir, VictoriaMetrics too). A server is read for as long
as it takes to be sure, at most --window; the reason is said.
Without SOURCE, a running diag serve is asked: of now, or of the past.
Exit: 0 nothing at --fail-on, 1 something, 2 usage, 3 could not collect.
"""


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--window", type=DURATION, help="Read a server for exactly this long, instead of up to 60s.")
@click.option("--at", metavar="TIME", help="In a recorded past: the moment to look at (UTC).")
@click.option("--since", type=DURATION, help="In a recorded past: how long before that moment to look.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Instead of a SOURCE: where `diag serve` keeps what it read.",
)
@click.option("--deployment", metavar="NAME", help="Which deployment of the service or its history.")
@url_option
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Instead of a SOURCE: the settings of `diag serve`, which name its history.",
)
@click.option("--objective", metavar="TEXT", help="What latency must be, as in 'p95 < 200ms' or 'mean < 1s'.")
@click.option(
    "--repository",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The model repository: patches are then diffs of its files.",
)
@click.option("--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="never", show_default=True, help="When to exit 1.")
@click.option("--why-not", metavar="CHECK", help="Show what this check saw, and what would have changed its mind.")
@source_options
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    window: float | None,
    at: str | None,
    since: float | None,
    history: Path | None,
    deployment: str | None,
    url: str | None,
    config_file: Path | None,
    objective: str | None,
    repository: Path | None,
    output: str,
    fail_on: str,
    why_not: str | None,
    options: SourceOptions,
) -> None:
    """Explain why an endpoint is slow, and which line to change."""
    check = _check_id(why_not) if why_not is not None else None
    question = Question(
        at=at,
        since=since,
        objective=Objective.parse(objective) if objective is not None else None,
        repository=repository,
    )
    if sources:
        _refuse("takes the place of a SOURCE", history=history, deployment=deployment, config_file=config_file, url=url)
        explanation, failed = _ask(sources, question, window, options)
    elif url is not None or (directory := _history(history, config_file)) is None:
        _refuse("is for a SOURCE", window=window, objective=objective, repository=repository)
        asked = Asked(deployment=deployment, at=at, since=since, output=output, fail_on=fail_on, check=check)
        ctx.exit(ask(RunningService(url, options), asked))
    else:
        explanation, failed = _ask_history(directory, deployment, question), False
    from diagnostics.diagnosis.proof import proved

    explanation = proved(explanation)
    _show(explanation, output, check)
    if failed or explanation.window.end <= 0:
        ctx.exit(EXIT_COLLECT)
    failed_on = fails(fail_on, explanation.verdict, [finding.severity for finding in explanation.findings])
    ctx.exit(EXIT_FINDINGS if failed_on else EXIT_OK)


def _refuse(why: str, **given: object) -> None:
    """Refuse the options that have a value; they are named as Python spells them."""
    for name, value in given.items():
        if value is not None:
            option = "--config.file" if name == "config_file" else f"--{name.replace('_', '-')}"
            raise UsageError(why, where=option)


def _check_id(name: str) -> str:
    if name in catalogue():
        return name
    raise UsageError(f"there is no check {name!r}", where="--why-not", hint=nearest(name, catalogue()))


def _ask(
    sources: Sequence[str], question: Question, window: float | None, options: SourceOptions
) -> tuple[Explanation, bool]:
    """Return the explanation, and whether some source could not be read."""
    if any(is_prometheus(source) for source in sources):
        return explain_stored(sources, question, window, options), False
    on_disk = [looks_like_a_path(source) for source in sources]
    if all(on_disk):
        if window is not None:
            raise UsageError("is for servers", where="--window", hint="cut a capture with --at and --since")
        return explain_captures([Path(source) for source in sources], question, aloud), False
    if any(on_disk):
        raise UsageError("captures and servers cannot be explained together", hint="name one kind of source")
    if question.at is not None or question.since is not None:
        raise UsageError(
            "a server only tells of now", where="--at, --since", hint="record it, then explain the capture"
        )
    from diagnostics.cli.reading import explain_servers

    return explain_servers(sources, question, window, options)


def _history(given: Path | None, config_file: Path | None) -> Path | None:
    from diagnostics.cli.remembered import history_directory

    return history_directory(given, config_file)


def _ask_history(directory: Path, deployment: str | None, question: Question) -> Explanation:
    from diagnostics.cli.remembered import explain_history

    return explain_history(directory, deployment, question)


def _show(explanation: Explanation, output: str, check: str | None) -> None:
    if check is not None:
        click.echo(account([result for result in explanation.results if result.check.id == check]), nl=False)
    elif output == "json":
        click.echo(json.dumps(report(explanation), indent=1, allow_nan=False))
    elif output == "markdown":
        click.echo(markdown(explanation), nl=False)
    elif output == "html":
        from diagnostics.render.html import html

        click.echo(html(explanation), nl=False)
    else:
        click.echo(text(explanation, coloured), nl=False)
