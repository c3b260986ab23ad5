"""What a rule says: a problem, how bad it is, and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from diagnostics.tuning.changes import ConfigChange


class LintSeverity(StrEnum):
    """`error`: does not load, or surely fails. `warning`: likely slow or risky. `info`: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return tuple(LintSeverity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A character of a file; `line` and `column` count from 1, in characters, as protobuf's own messages do."""

    path: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintProblem:
    """One problem.

    Attributes:
        rule: id of the rule.
        message: one sentence that says what is wrong, with its numbers.
        help: what to do about it, or what to measure where that is not known; empty for nothing to add.
        fix: the change that mends it, where a setting does; `--fix` writes it as a patch.

    """

    rule: str
    severity: LintSeverity
    place: SourceLocation
    message: str
    help: str = ""
    fix: ConfigChange | None = None
