"""`diag explain` without a source: the running service answers."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from diagnostics.cli.fail_on import fails
from diagnostics.cli.running_service import RunningService, path_of
from diagnostics.cli.sources import moment
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, UsageError
from diagnostics.window.rolling import WINDOW_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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


def ask(service: RunningService, asked: Asked, *, colour: bool) -> int:
    """Print the service's answer and return the exit code.

    Raises:
        CollectError: no service answers, or it cannot answer this.
        UsageError: which deployment is meant is not clear, or the moment cannot be read.

    """
    name = service.deployment(asked.deployment)
    if asked.check is not None:
        if asked.at is not None or asked.since is not None:
            raise UsageError("of the past needs a recording", where="--why-not", hint="give --history or a capture")
        click.echo(service.json(f"{path_of(name)}/checks/{asked.check}")["account"], nl=False)
        return EXIT_OK
    # The verdict decides on the exit code, so it is asked for whatever is printed.
    path, query = _explanation(name, asked)
    report = service.json(path, **query)
    if asked.output == "json":
        import json

        click.echo(json.dumps(report, indent=1, allow_nan=False))
    else:
        output = "coloured" if asked.output == "text" and colour and sys.stdout.isatty() else asked.output
        query["output"] = output
        click.echo(service.read(path, **query).decode("utf-8", "replace"), nl=False)
    if report["window"]["to"] <= 0:
        return EXIT_COLLECT
    severities = [finding["severity"] for finding in report["findings"]]
    return EXIT_FINDINGS if fails(asked.fail_on, report["verdict"], severities) else EXIT_OK


def _explanation(name: str, asked: Asked) -> tuple[str, dict[str, Any]]:
    if asked.at is None and asked.since is None:
        return f"{path_of(name)}/explanation", {}
    now = time.time()
    at = moment(asked.at, now) if asked.at is not None else now
    return "/explain", {"deployment": name, "at": at, "since": asked.since or WINDOW_SECONDS}
