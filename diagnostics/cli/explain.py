"""`--fail-on`: what makes a command exit with 1, wherever the answer came from."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.cli.evidence_source import EvidenceSource, evidence_options, explained
from diagnostics.cli.options import nearest, places_given
from diagnostics.cli.output import output_option, show, show_patch
from diagnostics.cli.running_service import CheckReply, RunningService, path_of, url_option
from diagnostics.cli.sources import moment, warn
from diagnostics.diagnosis.diagnose import Validation
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, CollectError, UsageError
from diagnostics.render.explanation.document import explanation_document
from diagnostics.render.explanation.json import report
from diagnostics.render.explanation.why_not import account
from diagnostics.render.json_head import Json
from diagnostics.render.plain import legible
from diagnostics.window.rolling import WINDOW_SECONDS
from diagnostics.wire.json_body import json_value

FAIL_ON = ("critical", "warning", "unknown", "never")


def fails(fail_on: str, verdict: str, severities: Iterable[str]) -> bool:
    """Return whether a verdict, with the severities of its findings, is what `fail_on` (of FAIL_ON) names."""
    match fail_on:
        case "critical":
            return Severity.CRITICAL in severities
        case "warning":
            return verdict == Verdict.DEGRADED
        case "unknown":
            return verdict in (Verdict.DEGRADED, Verdict.NO_CLEAR_CAUSE, Verdict.INSUFFICIENT_DATA)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuery:
    """What is asked of the service.

    Attributes:
        deployment: its name; None for the only one.
        at: the moment, as given; None for now.
        since: seconds before it; None for the service's own window.
        output: as `--output`.
        fail_on: as `--fail-on`.
        check: whose account is wanted instead (`--why-not`); None for the explanation.

    """

    deployment: str | None
    at: str | None
    since: float | None
    output: str
    fail_on: str
    check: str | None


def ask(service: RunningService, requested: ServiceQuery) -> int:
    """Print the service's answer and return the exit code.

    Raises:
        CollectError: no service answers, or it cannot answer this.
        UsageError: which deployment is meant is not clear, or the moment cannot be read.

    """
    name = service.deployment(requested.deployment)
    if requested.check is not None:
        if requested.at is not None or requested.since is not None:
            raise UsageError("of the past needs a recording", where="--why-not", hint="give --history or a capture")
        answered = service.json(f"{path_of(name)}/checks/{requested.check}", CheckReply)
        click.echo(legible(answered["account"]), nl=False)
        return EXIT_OK
    path, query = _explanation(name, requested)
    output = "json" if requested.output == "patch" else requested.output
    # An older service colours `brief` unasked.
    colour = {"colour": "true"} if output == "brief" else {}
    answer = service.answer(path, output=output, **colour, **query)
    try:
        code = _exit_code(answer.headers, requested.fail_on)
        text = _as_requested(answer.body, requested.output)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise service.other_program() from None
    if requested.output == "patch":
        show_patch(text)
    else:
        click.echo(legible(text), nl=False)  # what answers may be another program
    return code


def _as_requested(body: bytes, output: str) -> str:
    """Return a service's answer in the form that was asked for."""
    if output not in ("json", "patch"):
        return body.decode("utf-8", "replace")
    document: Any = json_value(body)
    return _patch(document) if output == "patch" else f"{json.dumps(document, indent=1, allow_nan=False)}\n"


_FORMS = {"text": "brief"}


def _patch(document: Json) -> str:
    """Return the patch of the first finding, which is the answer; nothing, and why on standard error, without one.

    Raises:
        CollectError: it is no patch of a file, since the repository was not read.

    """
    first = next((one for one in document["findings"] if Severity(one["severity"]).actionable), None)
    if first is None:
        warn(f"no patch: the answer is {document['verdict']}, and changes nothing")
        return ""
    made, on = first["suggestion"], first["subject"]
    if made is None or not made["patch"]:
        what = f"{first['check']} of {on['model'] or on['ensemble'] or on['gpu'] or on['server']}"
        remedy = f": {made['text']}" if made else ""
        warn(f"no patch: {what} needs another remedy{remedy}")
        return ""
    if made["patch_base"] != "file":
        raise CollectError(
            f"the file that {first['check']} would change was not read",
            where="--output patch",
            hint="name the model repository with --repository DIR",
        )
    return str(made["patch"])


def _exit_code(headers: Mapping[str, str], fail_on: str) -> int:
    """Return the exit code that an explanation's headers mean."""
    verdict, severities, to = (headers[f"Diag-{name}"] for name in ("Verdict", "Severities", "Window-To"))
    if float(to) <= 0 or headers.get("Diag-Current") == "false":
        return EXIT_COLLECT
    return EXIT_FINDINGS if fails(fail_on, verdict, severities.split(", ")) else EXIT_OK


def _explanation(name: str, requested: ServiceQuery) -> tuple[str, dict[str, Any]]:
    if requested.at is None and requested.since is None:
        return f"{path_of(name)}/explanation", {}
    now = time.time()
    at = moment(requested.at, now) if requested.at is not None else now
    return "/explain", {"deployment": name, "at": at, "since": requested.since or WINDOW_SECONDS}


_EPILOG = """\b
Examples:
  diag explain http://triton:8000
  diag explain slow.tar.xz --repository ./models
  diag explain slow.tar.xz --output patch | patch -p1 -d ./models
  diag explain slow.tar.xz --at 03:12 --since 5m
  diag explain --history data --at 03:12 --since 20m
  diag explain triton:8000 --objective 'p95 < 200ms' --fail-on warning
  diag explain slow.tar.xz --why-not capacity-exceeded
  diag explain --at 03:12 --since 20m
  diag explain metrics-1.txt metrics-2.txt stats.json server.log
  curl -s http://triton:8002/metrics | diag explain -
  diag explain 'prometheus+http://prometheus:9090?selector={job="triton"}' --since 10m

\b
SOURCE is any port of a Triton, its metrics page, a capture, or a Prometheus that
scrapes Tritons (Thanos, Mimir, VictoriaMetrics too). A server is read for as long
as it takes to be sure, at most 60s; why it reads on is said.
Saved files are known by their content: metrics pages, statistics, configurations,
an index, a server log, perf_analyzer's table or CSV; - is standard input.
Without SOURCE, a running diag serve is asked: of now, or of the past.
Exit: 0 nothing at --fail-on, 1 something, 2 usage, 3 could not collect.
"""


@click.command(epilog=_EPILOG)
@click.option("--objective", metavar="LIMIT", help="What latency must be, as in 'p95 < 200ms' or 'mean < 1s'.")
@output_option("patch", help="How to write it; patch is what `git apply` and `patch -p1` take.")
@click.option("-v", "--verbose", is_flag=True, help="Show all evidence, assumptions, blind spots and other findings.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="never", show_default=True, help="When to exit 1.")
@click.option("--why-not", metavar="CHECK", help="Show what this check saw, and what would have changed its mind.")
@url_option
@evidence_options
@click.pass_context
def command(
    ctx: click.Context,
    source: EvidenceSource,
    objective: str | None,
    output: str,
    verbose: bool,
    fail_on: str,
    why_not: str | None,
    url: str | None,
) -> None:
    """Explain why an endpoint is slow, and which line to change."""
    check = _check_id(why_not) if why_not is not None else None
    if check is not None and output != "text":
        raise UsageError("is text", where="--why-not", hint="use only one of them: the JSON covers every check")
    if verbose and output != "text":
        raise UsageError("is for text", where="--verbose", hint="leave it out: other outputs hold everything")
    wanted = Objective.parse(objective) if objective is not None else None
    if _is_for_the_service(source, url):
        _refuse(source, objective)
        if check is not None and fail_on != "never":
            hint = "give one of them, or name a SOURCE"
            raise UsageError("is not told with the account of a check", where="--fail-on", hint=hint)
        written = _FORMS.get(output, output) if not verbose else "coloured"
        ctx.exit(ask(RunningService(url, source.options), _requested(source, written, fail_on, check)))
    question = replace(source.question, objective=wanted, validation=Validation())
    explanation, failed = explained(replace(source, question=question))
    _show(explanation, output, check, verbose=verbose)
    if failed or explanation.window.end <= 0:
        ctx.exit(EXIT_COLLECT)
    failed_on = fails(fail_on, explanation.verdict, [finding.severity for finding in explanation.findings])
    ctx.exit(EXIT_FINDINGS if failed_on else EXIT_OK)


def _is_for_the_service(source: EvidenceSource, url: str | None) -> bool:
    if source.names:
        if url is not None:
            raise UsageError("not together with a SOURCE", where="--url", hint="leave out one or the other")
        return False
    from diagnostics.cli.remembered import history_directory

    return url is not None or history_directory(source.history, source.config_file) is None


def _requested(source: EvidenceSource, output: str, fail_on: str, check: str | None) -> ServiceQuery:
    at, since = source.question.at, source.question.since
    return ServiceQuery(deployment=source.deployment, at=at, since=since, output=output, fail_on=fail_on, check=check)


def _refuse(source: EvidenceSource, objective: str | None) -> None:
    """Refuse what the running service that is asked has settings of its own for."""
    given = {
        "--window": source.window,
        "--objective": objective,
        "--repository": source.question.repository,
        "--history": source.history,
        "--config.file": source.config_file,
    }
    refused = [option for option, value in given.items() if value is not None] + places_given(source.options)
    if refused:
        raise UsageError("not for a running service", where=", ".join(refused), hint="leave it out, or name a SOURCE")


def _check_id(name: str) -> str:
    if name in catalogue():
        return name
    raise UsageError(f"there is no check {name!r}", where="--why-not", hint=nearest(name, catalogue(), "diag checks"))


def _show(explanation: Explanation, output: str, check: str | None, *, verbose: bool) -> None:
    if check is not None:
        click.echo(account([result for result in explanation.results if result.check.id == check]), nl=False)
    elif output == "patch":
        show_patch(_patch(report(explanation)))
    else:
        full = verbose or output != "text"
        show(
            output,
            lambda: explanation_document(explanation, verbose=full),
            lambda: report(explanation),
            lambda: _page(explanation),
        )


def _page(explanation: Explanation) -> str:
    from diagnostics.render.explanation.html import html

    return html(explanation)
