"""A symbolic link leads back to itself, or to a folder around it.

## Looks for
Links among the linted folders that never end.

## Means
The link leads to files that are linted already, or to nothing. Programs that follow links, such as a polling server or
a copy, may never finish.

## Do
Remove the link, or let it point to the intended folder.

## Sources
POSIX, `ELOOP`: "Too many levels of symbolic links".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.repository import Difficulty
from diagnostics.lint.rule import Link, LintTopic, Rule, RuleCase, RuleScope, TroubleView

RULE = Rule(scope=RuleScope.READING, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: TroubleView) -> Iterator[LintProblem]:
    """Report a link without an end."""
    if view.trouble.difficulty is Difficulty.LOOP:
        yield view.problem(view.trouble.message, at=view.trouble.place, help=view.trouble.help)


_READ = 'name: "a"\n'
CASES = (
    RuleCase.fires(
        "when a link leads to a folder around it",
        {"models/a/config.pbtxt": _READ, "models/again": Link(to="../models")},
        "models/again:1:1",
    ),
    RuleCase.fires(
        "when a link leads to itself",
        {"models/a/config.pbtxt": _READ, "models/self": Link(to="self")},
        "models/self:1:1",
    ),
    RuleCase.quiet("about a link to another model", {"models/a/config.pbtxt": _READ, "models/b": Link(to="a")}),
)
