"""A text with its path: what stands where, and what cannot be read and why."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from diagnostics.errors import CollectError, reason_of
from diagnostics.settings.text_file import up_to
from diagnostics.tuning.changes import ConfigChange

# The largest configurations seen have 20 kB, the largest dashboards 2 MB; weights and engines are never read.
MAX_FILE_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """The text of a file. `path` is as it is shown: below the path that was given."""

    path: str
    text: str

    def place(self, offset: int) -> SourceLocation:
        """Return the place of the character at `offset`, counted from 0."""
        line = bisect_right(self._starts, offset)
        return SourceLocation(path=self.path, line=line, column=offset - self._starts[line - 1] + 1)

    def lines(self) -> list[str]:
        """Return the lines without their ends; line 1 is the first."""
        return [line.rstrip("\r") for line in self.text.split("\n")]

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts


def joined(shown: str, name: str) -> str:
    """Return the path to show of what is called `name` in the folder `shown`."""
    return name if shown == "." else f"{shown.rstrip('/')}/{name}"


def _absence(path: Path) -> str:
    if path.exists():
        return "is not a file"
    return "is a symbolic link to nothing" if path.is_symlink() else "does not exist"


def read_text(path: Path, shown: str) -> TextFile:
    """Return the file at `path`, shown as `shown`.

    Raises:
        CollectError: it is missing, too large, not a plain file, not text, or may not be read.

    """
    try:
        if not path.is_file():
            raise CollectError(_absence(path), where=shown)
        body = up_to(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CollectError(f"cannot be read: {reason_of(error)}", where=shown) from None
    if len(body) > MAX_FILE_BYTES:
        raise CollectError(f"is larger than {MAX_FILE_BYTES // 2**20} MiB: not a file that people write", where=shown)
    if b"\0" in body:
        raise CollectError("is not text: it holds zero bytes", where=shown)
    try:
        return TextFile(path=shown, text=body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CollectError(f"is not UTF-8 text at byte {error.start}", where=shown) from None


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
