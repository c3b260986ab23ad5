"""Finds the rules: every module of `rules/` that declares one. No registry."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import cleandoc

from diagnostics.lint import rules
from diagnostics.lint.rule import Case, Lint, Rule


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
        parts = self.page.split("\n## ")[1:]
        return {part.partition("\n")[0].strip(): part.partition("\n")[2].strip() for part in parts}


@cache
def catalogue() -> Mapping[str, Registered]:
    """Return all rules by id, sorted."""
    found = {}
    for entry in pkgutil.iter_modules(rules.__path__):
        module = import_module(f"{rules.__name__}.{entry.name}")
        if not hasattr(module, "RULE"):
            continue
        page = cleandoc(module.__doc__ or "")
        identifier = entry.name.replace("_", "-")
        found[identifier] = Registered(
            id=identifier,
            title=page.partition("\n")[0].rstrip("."),
            page=page,
            rule=module.RULE,
            lint=module.lint,
            cases=module.CASES,
        )
    return dict(sorted(found.items()))
