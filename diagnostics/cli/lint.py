"""`diag lint`: what is wrong with model repositories, by their files alone."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic

import click

from diagnostics.cli.options import coloured, is_given, nearest
from diagnostics.cli.output import output_option, show, show_patch
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, UsageError
from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.fixes import fixes_of
from diagnostics.lint.problem import LintSeverity
from diagnostics.lint.rule import LintTopic
from diagnostics.lint.run import LintReport, lint
from diagnostics.lint.settings import LintSettings, settings_file, settings_of
from diagnostics.render.lint.text import count, lint_document, lint_text, sums
from diagnostics.render.plain import clean, visible

_WIDTH = 80


def chosen(identifiers: Iterable[str]) -> Mapping[str, RegisteredRule]:
    """Return these rules, all for none.

    Raises:
        UsageError: there is no such rule.

    """
    found = {identifier: rule(identifier) for identifier in identifiers}
    return found or catalogue()


def rule(identifier: str) -> RegisteredRule:
    """Return the rule of this id.

    Raises:
        UsageError: there is none; names the nearest.

    """
    if identifier not in catalogue():
        hint = nearest(identifier, catalogue(), "diag lint --rules")
        raise UsageError(f"there is no rule {identifier!r}", hint=hint)
    return catalogue()[identifier]


def page(identifier: str) -> str:
    """Return the page of a rule as text."""
    found = rule(identifier)
    head = f"{found.id} ({found.rule.severity.value}, {found.rule.scope.value})"
    limits = [f"- {name}: {limit.unit.show(limit.value)}, {limit.because}" for name, limit in found.rule.limits.items()]
    return "\n".join([head, found.page, *(["", "## Limits", *limits] if limits else [])])


def table() -> str:
    """Return the rules by the question that they help to answer."""
    return "\n".join(_table())


def _table() -> Iterator[str]:
    every = catalogue().values()
    width = max(len(found.id) for found in every) + 2
    for question in LintTopic:
        rules = [found for found in every if found.rule.question is question]
        if rules:
            yield question.value
        for found in rules:
            start = f"  {found.id:{width}}{found.rule.severity.value:9}"
            lines = textwrap.wrap(found.title, max(_WIDTH - len(start), 30))
            yield start + lines[0]
            yield from (" " * len(start) + line for line in lines[1:])


_EPILOG = """\b
Examples:
  diag lint models                        all rules, over one repository
  diag lint .                             every repository below, and compose
                                          files, manifests, rules, dashboards
  diag lint models --fix | patch -p1      apply what a setting mends
  diag lint models --output sarif > lint.sarif
  diag lint --rules                       the rules and what they ask
  diag lint --explain no-warm-up          the page of one

\b
PATH is a repository, a folder around some, a model's folder or config.pbtxt,
or a deployment file. `# diag: ignore[rule-id] reason` accepts a problem where
it stands; .diag-lint.toml or [tool.diag.lint] decide for more.
Exit: 0, 1 a problem at --fail-on, 2 usage, 3 nothing could be read.
"""
_PROGRESS_SECONDS = 3.0
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(epilog=_EPILOG)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="PATH...")
@output_option("sarif")
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in LintSeverity), "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 when there is a problem as bad as this.",
)
@click.option(
    "--fix", is_flag=True, help="Print the patch of all problems that settings solve; counts go to standard error."
)
@click.option("--config", "config", type=_FILE, help="Settings, instead of the nearest .diag-lint.toml.")
@click.option("--runbooks", metavar="URL", default="", help="Where you publish rules/lint; SARIF's rules link there.")
@click.option("--rule", "only", multiple=True, metavar="ID", help="Ask this rule only; may be repeated.")
@click.option("--rules", "listing", is_flag=True, help="List the rules.")
@click.option("--explain", "explained", metavar="ID", help="Show the page of a rule.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    output: str,
    fail_on: str,
    fix: bool,
    config: Path | None,
    runbooks: str,
    only: tuple[str, ...],
    listing: bool,
    explained: str | None,
) -> None:
    """Say what is wrong with model repositories by their files."""
    if listing or explained is not None:
        _check_alone(ctx, "--rules" if listing else "--explain")
        click.echo(page(explained) if explained is not None else table())
        return
    if not paths:
        raise UsageError("there is nothing to lint", hint="name a model repository, as in `diag lint models`")
    if fix and output != "text":
        raise UsageError("prints a patch", where="--fix", hint="leave out --output; SARIF holds the fixes, too")
    if runbooks and (output != "sarif" or "://" not in runbooks):
        raise UsageError(
            "is the absolute address that rules of SARIF link to",
            where="--runbooks",
            hint="add --output sarif, and write it as https://git.example.org/diag/rules/lint",
        )
    report = _report(paths, config, only)
    if fix:
        _print_patch(report)
    else:
        _print(report, output, runbooks)
    for failure in report.failures:
        click.echo(f"diag: {clean(failure)}", err=True)
    ctx.exit(_exit_code(report, fail_on))


def _check_alone(ctx: click.Context, option: str) -> None:
    """Refuse whatever stands beside an option that shows a page."""
    given = [name for name in ctx.params if is_given(ctx, name)]
    if len(given) > 1:
        raise UsageError("shows a page and lints nothing", where=option, hint="give it alone")


def _report(paths: tuple[Path, ...], config: Path | None, only: tuple[str, ...]) -> LintReport:
    file = config or settings_file(Path(os.path.abspath(paths[0])))  # noqa: PTH100 - `..` in it must go, links may stay
    settings = settings_of(file) if file else LintSettings()
    return lint(paths, settings, chosen(only), progress=_Progress())


class _Progress:
    """Says on standard error, every few seconds, how far it is; nothing of what is done soon."""

    def __init__(self) -> None:
        self._next = monotonic() + _PROGRESS_SECONDS

    def __call__(self, far: str) -> None:
        if monotonic() >= self._next:
            self._next = monotonic() + _PROGRESS_SECONDS
            click.echo(f"diag: linted {clean(far)}", err=True)


def _print(report: LintReport, output: str, runbooks: str) -> None:
    if output == "text":
        click.echo(lint_text(report, coloured), nl=False)
    elif output == "json":
        from diagnostics.render.lint.json import lint_report

        click.echo(visible(json.dumps(lint_report(report), indent=1, ensure_ascii=False)))
    elif output != "sarif":
        show(output, lambda: lint_document(report), dict)
    else:
        from diagnostics.render.lint.json import lint_sarif

        click.echo(visible(json.dumps(lint_sarif(report, runbooks), indent=1, ensure_ascii=False)))


def _print_patch(report: LintReport) -> None:
    here = Path.cwd()
    fixes = fixes_of(report.problems, report.project, here)
    show_patch(fixes.patch)
    for line in fixes.refused:
        click.echo(f"diag: {clean(line)}", err=True)
    where = "" if fixes.folder == here else f"; apply it with patch -p1 -d {fixes.folder}"
    click.echo(f"diag: {sums(report)}; the patch mends {count(fixes.fixed, 'problem', 'problems')}{where}", err=True)


def _exit_code(report: LintReport, fail_on: str) -> int:
    if fail_on != "never" and any(problem.severity.rank <= LintSeverity(fail_on).rank for problem in report.problems):
        return EXIT_FINDINGS
    nothing_read = report.unread == report.models and not report.files
    return EXIT_COLLECT if nothing_read or report.failures else EXIT_OK
