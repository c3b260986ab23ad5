"""`diag gen`: writes rules, their tests and runbooks, or says which are stale, or how often they would have fired."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.options import DURATION, connecting_given, connection_options, is_given
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, UsageError, reason_of
from diagnostics.gen.files import FOLDERS, generated, is_generated
from diagnostics.render.plain import clean
from diagnostics.settings.text_file import up_to
from exporters.sources.access import SourceOptions

_DEFAULT = Path("rules")
_RUNBOOKS = "runbooks"
_MOST_BYTES = 64 * 2**20
"""Of a file that was written before: more than all generated ones together."""
_FLAGS = {"only_check": "--check", "output": "--output", "runbooks": "--runbooks"}
_EPILOG = """\b
Examples:
  diag gen --output rules
  diag gen --output rules --runbooks https://wiki.example.org/triton/runbooks
  diag gen --check            exits with 1 if a file is stale
  diag gen rules --replay http://prometheus:9090 --since 7d

\b
Writes recording/ and alerts/ (Prometheus rules), tests/ (for promtool test
rules), runbooks/, alertmanager/ (an example with grouping and inhibition),
prometheusrule.yaml (for the operator), mixin/, lint/ (pages of diag lint's
rules) and README.md. Files that it did not write are left alone.
Exit: 0 written or up to date, 1 stale (--check), 2 usage or not writable.
"""
_RULES_EPILOG = """\b
Examples:
  diag gen rules --output rules
  diag gen rules --replay http://prometheus:9090 --since 7d
  diag gen rules --replay https://mimir.example.org/prometheus --header 'X-Scope-OrgID: a'

\b
A replay needs none of the recording rules to be loaded. It evaluates every
alert once a minute of that history, holds it for as long as its rule says,
and names the series that do not exist.
Exit: 0 written, up to date or replayed, 1 stale (--check), 2 usage or not
writable, 3 the Prometheus did not answer.
"""
_WRITING = (
    click.option(
        "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 and a list if files are stale."
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        metavar="DIRECTORY",
        help="Folder to write to; ./rules when it exists.",
    ),
    click.option(
        "--runbooks",
        default=_RUNBOOKS,
        show_default=True,
        metavar="URL",
        help="Where you publish runbooks/; becomes the alerts' runbook_url.",
    ),
)


def _writing_options(command: Callable[..., object]) -> Callable[..., object]:
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_WRITING), command)


@click.group(epilog=_EPILOG, invoke_without_command=True)
@_writing_options
@click.pass_context
def command(ctx: click.Context, only_check: bool, output: Path | None, runbooks: str) -> None:
    """Write rules, their tests and runbooks from the checks."""
    if ctx.invoked_subcommand is None:
        _write(ctx, only_check, output, runbooks)
    elif misplaced := [flag for name, flag in _FLAGS.items() if is_given(ctx, name)]:
        hint = f"write it behind, as in diag gen {ctx.invoked_subcommand} {misplaced[0]}"
        raise UsageError(f"is before {ctx.invoked_subcommand}", where=", ".join(misplaced), hint=hint)


@command.command(epilog=_RULES_EPILOG)
@_writing_options
@click.option(
    "--replay", metavar="URL", help="A Prometheus: print how often each alert would have fired, write nothing."
)
@click.option("--since", type=DURATION, default="7d", show_default=True, help="How much of its history to replay.")
@connection_options
@click.pass_context
def rules(
    ctx: click.Context,
    only_check: bool,
    output: Path | None,
    runbooks: str,
    replay: str | None,
    since: float,
    options: SourceOptions,
) -> None:
    """Write the rules, or replay their alerts on a Prometheus's history."""
    if replay is None:
        for_a_replay = [*(["--since"] if is_given(ctx, "since") else []), *connecting_given(options)]
        if for_a_replay:
            raise UsageError("is for a replay", where=", ".join(for_a_replay), hint="name a Prometheus with --replay")
        _write(ctx, only_check, output, runbooks)
        return
    if refused := [flag for name, flag in _FLAGS.items() if is_given(ctx, name)]:
        raise UsageError("--replay writes nothing", hint=f"leave out {' and '.join(refused)}")
    # Verbs start fast: reading a store is not needed to write files.
    from diagnostics.cli.replaying import histories, known, lasting, opened, report

    api = opened(replay, options)
    there = known(api, since)
    if there < since:
        click.echo(f"diag: the store's history begins {lasting(there)} ago: no more is replayed", err=True)
    found, missed = histories(api, there)
    for line in report(found, there):
        click.echo(clean(line))
    if missed is not None:
        raise missed


def _write(ctx: click.Context, only_check: bool, output: Path | None, runbooks: str) -> None:
    folder = _folder(output, must_exist=only_check)
    files = generated(catalogue(), runbooks)
    stale = dict(_stale(folder, files))
    if only_check:
        ctx.exit(_report(folder, stale, runbooks))
    _apply(folder, files, stale)
    written = sum(name in files for name in stale)
    click.echo(f"{folder}: {len(files)} files, {written} written, {len(stale) - written} removed")


def _folder(output: Path | None, *, must_exist: bool) -> Path:
    if output is None and not _DEFAULT.is_dir():
        raise UsageError("there is no folder ./rules here", hint="name the folder to write to with --output")
    folder = output or _DEFAULT
    if folder.exists() and not folder.is_dir():
        raise UsageError("is not a folder", where=str(folder), hint="name another with --output")
    if must_exist and not folder.exists():
        raise UsageError("does not exist", where=str(folder), hint="write it first: diag gen without --check")
    return folder


def _stale(folder: Path, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield path and state of every file that is not as it would be written."""
    for name, text in files.items():
        found = _text(folder / name)
        if found is None:
            yield name, "missing"
        elif found != text:
            if not is_generated(found):
                hint = "it was not written by diag gen; move it, or name another folder with --output"
                raise UsageError("would be overwritten", where=str(folder / name), hint=hint)
            yield name, "differs"
    for path in sorted(path for part in FOLDERS for path in (folder / part).glob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in files and is_generated(_text(path) or ""):
            yield name, "no longer generated"


def _text(path: Path) -> str | None:
    try:
        return up_to(path, _MOST_BYTES).decode(errors="replace")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        hint = "let it be read, or name another folder with --output"
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(path), hint=hint) from error


def _report(folder: Path, stale: Mapping[str, str], runbooks: str) -> int:
    if not stale:
        click.echo(f"{folder}: up to date")
        return EXIT_OK
    for name, state in stale.items():
        click.echo(clean(f"{folder / name}: {state}"))
    again = ["diag", "gen", "--output", str(folder), *(["--runbooks", runbooks] if runbooks != _RUNBOOKS else [])]
    click.echo(f"{len(stale)} stale; run: {shlex.join(again)}")
    return EXIT_FINDINGS


def _apply(folder: Path, files: Mapping[str, str], stale: Mapping[str, str]) -> None:
    try:
        for name in stale:
            path = folder / name
            if name not in files:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name].encode())
    except OSError as error:
        where = error.filename or str(folder)
        hint = "name a folder that can be written with --output"
        raise UsageError(f"cannot be written: {reason_of(error)}", where=where, hint=hint) from error
