"""Finds the checks: every module of this folder that declares one. No registry."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import cleandoc

from diagnostics import checks
from diagnostics.checks.check import Case, Check, Diagnose

HEADINGS = ("Looks for", "Means", "Rules out", "Do", "Sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A check as found on disk. `runbook` is its docstring: a title line and the five sections."""

    id: str
    title: str
    runbook: str
    check: Check
    diagnose: Diagnose
    cases: tuple[Case, ...]

    @property
    def alert(self) -> str:
        """Name of its alert: the id in PascalCase."""
        return "".join(part.capitalize() for part in self.id.split("-"))

    def sections(self) -> dict[str, str]:
        """Return the runbook's sections by heading, in order."""
        parts = self.runbook.split("\n## ")[1:]
        return {part.partition("\n")[0].strip(): part.partition("\n")[2].strip() for part in parts}


@cache
def catalogue() -> Mapping[str, Registered]:
    """Return all checks by id, sorted."""
    found = {}
    for entry in pkgutil.iter_modules(checks.__path__):
        module = import_module(f"{checks.__name__}.{entry.name}")
        if not hasattr(module, "CHECK"):
            continue
        runbook = cleandoc(module.__doc__ or "")
        identifier = entry.name.replace("_", "-")
        found[identifier] = Registered(
            id=identifier,
            title=runbook.partition("\n")[0].rstrip("."),
            runbook=runbook,
            check=module.CHECK,
            diagnose=module.diagnose,
            cases=module.CASES,
        )
    return dict(sorted(found.items()))
