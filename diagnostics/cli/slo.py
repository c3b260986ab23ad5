"""`diag slo`: how objectives stand, what took their budgets, and the rules that watch them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from diagnostics.cli.options import DURATION, connection_options
from diagnostics.cli.output import output_option, show
from diagnostics.cli.running_service import RunningService, Slos, url_option
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, UsageError, not_installed
from diagnostics.render.plain import legible
from diagnostics.slo.slo import LONGEST_PERIOD, SHORTEST_PERIOD, Slo
from exporters.sources.access import SourceOptions

_EPILOG = """\b
Examples:
  diag slo                                       what a running diag serve counted
  diag slo --period 7d --output markdown         this week's budgets, for the channel
  diag slo /var/lib/diag --slo slos.yaml         the same from its history
  diag slo slow.tar.xz --slo slos.yaml           what a recording says of objectives
  diag slo prometheus+http://prometheus:9090 --slo slos.yaml
  diag slo rules slos.yaml > slo-rules.yaml      recording rules and burn alerts
  diag slo rules --config.file diag.toml         of the objectives in settings

\b
FILE is OpenSLO (openslo/v1), Sloth (prometheus/v1), or a list slo: of the short
form; several may be given.
Exit: 0, 1 something at --fail-on, 2 usage, 3 could not collect.
"""
_ONE_OF_THEM = "leave it out, or SOURCE and --config.file"
SloReply = dict[str, Any]
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


class _ReportUnlessNamed(click.Group):
    """Reports, unless the first word is another command's name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help", "-h"):
            args = ["report", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ReportUnlessNamed, epilog=_EPILOG, subcommand_metavar="[SOURCE]... | rules FILE...")
def command() -> None:
    """Say how objectives stand, and which causes took their budgets.

    The options of the report (--slo, --period, --output, …): diag slo report --help
    """


@command.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--slo", "files", type=_FILE, multiple=True, metavar="FILE", help="A file of objectives.")
@click.option("--period", type=DURATION, help="Over which budgets are reckoned; each objective's own by default.")
@click.option(
    "--config.file", "config_file", type=_FILE, help="The settings of diag serve: its objectives and history."
)
@click.option("--deployment", metavar="NAME", help="Of this deployment only.")
@url_option
@output_option()
@click.option(
    "--fail-on",
    type=click.Choice(["alert", "spent", "never"]),
    default="never",
    show_default=True,
    help="When to exit 1: an alert fires now, or a budget is spent.",
)
@connection_options
@click.pass_context
def report(
    ctx: click.Context,
    sources: tuple[str, ...],
    files: tuple[Path, ...],
    period: float | None,
    config_file: Path | None,
    deployment: str | None,
    url: str | None,
    output: str,
    fail_on: str,
    options: SourceOptions,
) -> None:
    """Say how objectives stand (the default)."""
    if period is not None and not SHORTEST_PERIOD <= period <= LONGEST_PERIOD:
        raise UsageError("a period is between an hour and a year", where="--period", hint="30d is usual")
    if url is not None and (sources or config_file is not None):
        where = "--url, --config.file" if config_file is not None else "--url"
        raise UsageError("asks a running service, which knows its settings and history", where=where, hint=_ONE_OF_THEM)
    slos = _objectives(files, config_file)
    if not sources and config_file is None:
        if deployment is not None:
            hint = "name the directory of diag serve as SOURCE"
            raise UsageError("is for a history", where="--deployment", hint=hint)
        ctx.exit(_requested(RunningService(url, options), slos, period, output, fail_on))
    if not slos:
        raise UsageError(
            "there are no objectives", hint="name a file of them with --slo, or settings with --config.file"
        )
    with _installed():
        from diagnostics.cli.slo_sources import reports_from

        found, missed = reports_from(
            sources, slos, period=period, config_file=config_file, deployment=deployment, options=options
        )
    from diagnostics.render.slo.document import slo_document
    from diagnostics.render.slo.json import slo_report

    reported = slo_report(found)
    show(output, lambda: slo_document(found), lambda: reported)
    if missed is not None:
        raise missed
    ctx.exit(_exit_code(reported, fail_on))


@contextmanager
def _installed() -> Iterator[None]:
    """Say which package is missing where an import of the extra `serve` fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed(error, "serve", where="diag slo") from None


def _objectives(files: Sequence[Path], config_file: Path | None) -> tuple[Slo, ...]:
    from diagnostics.slo.reading import read_slos
    from diagnostics.slo.slo import unique

    if config_file is None:
        return read_slos(files) if files else ()
    with _installed():
        from diagnostics.cli.service_settings import loaded_from
        from diagnostics.slo.reading import configured

    return unique([*configured(loaded_from(config_file)), *(read_slos(files) if files else ())])


def _requested(service: RunningService, slos: Sequence[Slo], period: float | None, output: str, fail_on: str) -> int:
    """Print a running service's answer and return the exit code."""
    names = [slo.name for slo in slos]
    query = {"period": period, **({"name": names} if names else {})}
    reported: SloReply = service.json("/slos", Slos, **query)
    if not reported["slos"]:
        raise UsageError("the service has no objectives", where=service.url, hint="write [[slo]] or slo_files")
    if not {slo.name for slo in slos} <= {one["name"] for one in reported["slos"]}:
        raise service.other_program()
    _refuse_others(reported["slos"], slos, period)
    if output == "json":
        click.echo(json.dumps(reported, indent=1, allow_nan=False))
    else:
        click.echo(legible(service.read("/slos", output=output, **query).decode("utf-8", "replace")), nl=False)
    return _exit_code(reported, fail_on)


def _refuse_others(reported: Sequence[SloReply], slos: Sequence[Slo], period: float | None) -> None:
    """Refuse to show what the service counts for an objective of the same name that is another one."""
    from diagnostics.render.slo.json import slo_head

    counted = {one["name"]: one for one in reported}
    for slo in slos:
        found, reported_of = counted[slo.name], slo_head(slo)
        alike = all(found[key] == reported_of[key] for key in ("objective", "sli"))
        if not alike or (period is None and found["period"]["seconds"] != slo.period):
            hint = "leave out --slo, or name the service's directory as SOURCE"
            raise UsageError(f"the service counts another objective {slo.name!r}", where=slo.where, hint=hint)


def _exit_code(reported: SloReply, fail_on: str) -> int:
    slos = reported["slos"]
    if all(one["events"]["total"] == 0 for one in slos):
        return EXIT_COLLECT
    spent = any((left := one["budget"]["left"]) is not None and left <= 0 for one in slos)
    failed = {"alert": any(one["alerts"] for one in slos), "spent": spent, "never": False}[fail_on]
    return EXIT_FINDINGS if failed else EXIT_OK


@command.command()
@click.argument("files", nargs=-1, type=_FILE, metavar="[FILE]...")
@click.option("--config.file", "config_file", type=_FILE, help="The settings of diag serve, and their objectives.")
@click.option("--prometheusrule", is_flag=True, help="As a PrometheusRule for the operator, instead of a rule file.")
@click.option(
    "--runbooks", default="runbooks", show_default=True, metavar="URL", help="Where you publish rules/runbooks/."
)
def rules(files: tuple[Path, ...], config_file: Path | None, prometheusrule: bool, runbooks: str) -> None:
    """Print recording rules and burn alerts for the objectives of FILE."""
    from diagnostics.gen.slo_rules import prometheus_rule, rule_file
    from diagnostics.slo.burn import cautions

    slos = _objectives(files, config_file)
    if not slos:
        raise UsageError("there are no objectives", hint="name a file of them, or settings with --config.file")
    for caution in (text for slo in slos for text in cautions(slo)):
        click.echo(f"diag: {caution}", err=True)
    if "://" not in runbooks:
        click.echo("diag: runbook_url is relative, so alerts lead nowhere: name its address with --runbooks", err=True)
    click.echo(prometheus_rule(slos, runbooks) if prometheusrule else rule_file(slos, runbooks), nl=False)
