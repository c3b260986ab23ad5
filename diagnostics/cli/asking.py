"""`diag explain` without a source: the running service answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from diagnostics.cli.fail_on import fails
from diagnostics.cli.running_service import RunningService, path_of
from diagnostics.cli.service_answers import CheckAnswer
from diagnostics.cli.sources import moment
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, UsageError
from diagnostics.window.rolling import WINDOW_SECONDS


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


def ask(service: RunningService, asked: ServiceQuery) -> int:
    """Print the service's answer and return the exit code.

    Raises:
        CollectError: no service answers, or it cannot answer this.
        UsageError: which deployment is meant is not clear, or the moment cannot be read.

    """
    name = service.deployment(asked.deployment)
    if asked.check is not None:
        if asked.at is not None or asked.since is not None:
            raise UsageError("of the past needs a recording", where="--why-not", hint="give --history or a capture")
        click.echo(service.json(f"{path_of(name)}/checks/{asked.check}", CheckAnswer)["account"], nl=False)
        return EXIT_OK
    path, query = _explanation(name, asked)
    output = "coloured" if asked.output == "text" else asked.output
    answer = service.answer(path, output=output, **query)
    try:
        code = _exit_code(answer.headers, asked.fail_on)
        text = answer.body.decode("utf-8", "replace")
        shown = _indented(text) if output == "json" else text
    except (KeyError, ValueError, RecursionError):
        raise service.other_program() from None
    click.echo(shown, nl=False)
    return code


def _indented(report: str) -> str:
    return f"{json.dumps(json.loads(report), indent=1, allow_nan=False)}\n"


def _exit_code(headers: Mapping[str, str], fail_on: str) -> int:
    """Return the exit code that an explanation's headers mean."""
    verdict, severities, to = (headers[f"Diag-{name}"] for name in ("Verdict", "Severities", "Window-To"))
    if float(to) <= 0 or headers.get("Diag-Current") == "false":
        return EXIT_COLLECT
    return EXIT_FINDINGS if fails(fail_on, verdict, severities.split(", ")) else EXIT_OK


def _explanation(name: str, asked: ServiceQuery) -> tuple[str, dict[str, Any]]:
    if asked.at is None and asked.since is None:
        return f"{path_of(name)}/explanation", {}
    now = time.time()
    at = moment(asked.at, now) if asked.at is not None else now
    return "/explain", {"deployment": name, "at": at, "since": asked.since or WINDOW_SECONDS}
