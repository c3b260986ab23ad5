"""The page of the checks, by layer, each linked to its runbook."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.checks.check import Severity
from diagnostics.gen.pages import table

_HEAD = """\
# Checks

Each check names one cause. Its runbook says what it looks for, what it rules out, what to do, and every limit.
`diag checks single-instance-serialization` prints a runbook in the terminal.
[Alerts, symptoms and recorded metrics](../../rules/README.md) are on a page of their own.

Checks marked *for information* never make a verdict `degraded` by themselves.
"""


def checks_page() -> str:
    """Return the page: a table for each layer."""
    return "\n\n".join([_HEAD.strip(), *_layers()])


def _layers() -> Iterator[str]:
    layers: dict[str, list[RegisteredCheck]] = {}
    for found in catalogue().values():
        layers.setdefault(found.check.layer.value, []).append(found)
    for layer, checks in layers.items():
        yield f"## Layer: {layer}\n\n{table(('check', 'cause that it names'), (_row(one) for one in checks))}"


def _row(found: RegisteredCheck) -> tuple[str, str]:
    mark = " (for information)" if found.check.severity is Severity.INFO else ""
    return f"[`{found.id}`](../../rules/runbooks/{found.id}.md)", f"{found.title}{mark}"
