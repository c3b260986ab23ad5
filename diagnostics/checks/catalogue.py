"""Finds the checks: every module of this folder that declares one. No registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from diagnostics import checks
from diagnostics.checks.check import Check, CheckCase, Diagnose
from diagnostics.pages import declaring, page_of, sections_of, title_of

HEADINGS = ("Looks for", "Means", "Rules out", "Do", "Sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCheck:
    """A check as found on disk. `runbook` is its docstring: a title line and the five sections."""

    id: str
    title: str
    runbook: str
    check: Check
    diagnose: Diagnose
    cases: tuple[CheckCase, ...]

    @property
    def alert(self) -> str:
        """Name of its alert: the id in PascalCase."""
        return "".join(part.capitalize() for part in self.id.split("-"))

    def sections(self) -> dict[str, str]:
        """Return the runbook's sections by heading, in order."""
        return sections_of(self.runbook)


@cache
def catalogue() -> Mapping[str, RegisteredCheck]:
    """Return all checks by id, sorted."""
    return {
        identifier: RegisteredCheck(
            id=identifier,
            title=title_of(page_of(module)),
            runbook=page_of(module),
            check=module.CHECK,
            diagnose=module.diagnose,
            cases=module.CASES,
        )
        for identifier, module in declaring(checks, "CHECK").items()
    }
