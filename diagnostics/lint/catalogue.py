"""Finds the rules: every module of `rules/` that declares one. No registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from diagnostics.lint import rules
from diagnostics.lint.rule import Case, Lint, Rule
from diagnostics.pages import declaring, page_of, sections_of, title_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A rule as found on disk. `page` is its docstring: a title line and the sections."""

    id: str
    title: str
    page: str
    rule: Rule
    lint: Lint
    cases: tuple[Case, ...]

    def sections(self) -> dict[str, str]:
        """Return the page's sections by heading, in order."""
        return sections_of(self.page)


@cache
def catalogue() -> Mapping[str, Registered]:
    """Return all rules by id, sorted."""
    return {
        identifier: Registered(
            id=identifier,
            title=title_of(page_of(module)),
            page=page_of(module),
            rule=module.RULE,
            lint=module.lint,
            cases=module.CASES,
        )
        for identifier, module in declaring(rules, "RULE").items()
    }
