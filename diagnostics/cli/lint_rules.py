"""The rules of `diag lint` as a table, as a page, and by their names."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from diagnostics.cli.options import nearest
from diagnostics.errors import UsageError
from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.rule import LintTopic

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
