"""Finds the rules: every module of `rules/` that declares one. No registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from diagnostics.lint import rules
from diagnostics.lint.rule import Lint, Rule, RuleCase
from diagnostics.pages import declaring, page_of, sections_of, title_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredRule:
    """A rule as found on disk. `page` is its docstring: a title line and the sections."""

    id: str
    title: str
    page: str
    rule: Rule
    lint: Lint
    cases: tuple[RuleCase, ...]

    def sections(self) -> dict[str, str]:
        """Return the page's sections by heading, in order."""
        return sections_of(self.page)


@cache
def catalogue() -> Mapping[str, RegisteredRule]:
    """Return all rules by id, sorted."""
    return {
        identifier: RegisteredRule(
            id=identifier,
            title=title_of(page_of(module)),
            page=page_of(module),
            rule=module.RULE,
            lint=module.lint,
            cases=module.CASES,
        )
        for identifier, module in declaring(rules, "RULE").items()
    }
