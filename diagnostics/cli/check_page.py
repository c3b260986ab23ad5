"""One check as a page, and all of them as JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from diagnostics import __version__
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.cli.options import nearest
from diagnostics.errors import UsageError
from diagnostics.gen.alert import PREFIX
from diagnostics.gen.finding_alerts import severity
from diagnostics.gen.rule_groups import SYMPTOMS, alone

WIDTH = 80
# The start of a list item, whose further lines are indented to its text.
_BULLET = re.compile(r"(?:-|\d{1,9}\.) ")
# Where a paragraph ends: before an empty line or the next item.
_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*\n)+|\n(?=(?:-|\d+\.) )")


def find(identifier: str) -> RegisteredCheck:
    """Return the check of that id, or of that alert.

    Raises:
        UsageError: there is none; the message names the nearest.

    """
    known = catalogue()
    by_alert = {PREFIX + found.alert: found for found in known.values()}
    found = known.get(identifier) or by_alert.get(identifier)
    if found:
        return found
    hint = nearest(identifier, known, "diag checks")
    raise UsageError(f"there is no check {identifier!r}", hint=hint)


def page(found: RegisteredCheck) -> Iterator[str]:
    """Yield the runbook, limits and alert of a check, 80 columns wide."""
    yield f"{found.id} ({found.check.layer.value})"
    yield from textwrap.wrap(f"{found.title}.", WIDTH)
    for heading, text in found.sections().items():
        yield from ("", heading)
        for paragraph in _PARAGRAPH.split(text):
            yield from _wrapped(paragraph)
    yield from ("", "Limits")
    for name, limit in found.check.limits.items():
        yield from _wrapped(f"- {name} {limit.unit.show(limit.value)}: {limit.because}")
    if not found.check.limits:
        yield "  It compares with no number."
    yield from ("", "Alert", f"  {PREFIX}{found.alert} ({severity(found).value})")


def _wrapped(paragraph: str) -> list[str]:
    text = " ".join(paragraph.split())
    marker = _BULLET.match(text)
    hang = " " * (2 + len(marker[0]) if marker else 2)
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent=hang, break_on_hyphens=False)


def document(chosen: RegisteredCheck | None) -> dict[str, object]:
    """Return one check, or all of them, as JSON-ready data."""
    head = {"schema_version": 1, "tool": {"name": "diag", "version": __version__}}
    if chosen:
        return {**head, "kind": "check", "check": {**_summary(chosen), **_details(chosen)}}
    return {**head, "kind": "checks", "checks": [_summary(found) for found in catalogue().values()]}


def _summary(found: RegisteredCheck) -> dict[str, object]:
    return {
        "id": found.id,
        "layer": found.check.layer.value,
        "scope": found.check.scope.value,
        "title": found.title,
        "alert": PREFIX + found.alert,
        "alert_severity": severity(found).value,
    }


def _details(found: RegisteredCheck) -> dict[str, object]:
    return {
        "sections": found.sections(),
        "limits": {
            name: {"value": limit.value, "unit": limit.unit.value, "because": limit.because}
            for name, limit in found.check.limits.items()
        },
        "symptom": _symptom(found),
        "cases": [{"title": case.title, "expect": case.expect.value} for case in found.cases],
    }


def _symptom(found: RegisteredCheck) -> str | None:
    """Return what points to the check in a Prometheus that has no rules of ours; None for nothing."""
    identifier = found.check.symptom
    return alone(SYMPTOMS[identifier].alert.expr) if identifier else None
