"""Waivers: comments that say why a problem is accepted where it stands.

`# diag: ignore[rule-id] reason` waives the rule's problems on its own line; where it stands alone, on the next line
that holds more than a comment. Several ids are parted by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from diagnostics.lint.problem import LintProblem, SourceLocation, TextFile

_WAIVER = re.compile(r"#\s*diag:\s*ignore\s*\[([^\[\]#]*)\]\s*+[:\-–—]?\s*+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One id of one comment: `place` is the comment's, `line` that which it is about; `reason` may be empty."""

    rule: str
    reason: str
    place: SourceLocation
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """A problem that is accepted, and why: by a waiver's reason, or by that of the settings."""

    problem: LintProblem
    reason: str
    in_source: bool


def waivers_of(file: TextFile) -> tuple[Waiver, ...]:
    """Return the waivers of a text with `#` comments, in order."""
    return tuple(_waivers(file)) if "diag:" in file.text else ()


def _waivers(file: TextFile) -> Iterator[Waiver]:
    lines = file.lines()
    following = _following(lines)
    for number, line in enumerate(lines, 1):
        match = _WAIVER.search(line)
        if match is None or not _is_comment(line, match.start()):
            continue
        alone = not line[: match.start()].strip()
        about = following[number - 1] if alone else number
        place = SourceLocation(path=file.path, line=number, column=match.start() + 1)
        for rule in filter(None, (part.strip() for part in match[1].split(","))):
            yield Waiver(rule=rule, reason=match[2].strip(), place=place, line=about)


def _is_comment(line: str, at: int) -> bool:
    """Return whether `#` at this column begins a comment, and does not stand in a string."""
    before = line[:at]
    return before.count('"') % 2 == 0 and before.count("'") % 2 == 0


def _following(lines: list[str]) -> list[int]:
    """Return for each line the number of the first behind it that holds more than a comment, its own if none does."""
    found, nearest = list[int](), 0
    for number in range(len(lines), 0, -1):
        found.append(nearest or number)
        text = lines[number - 1].strip()
        nearest = number if text and not text.startswith("#") else nearest
    return found[::-1]


def applied(
    problems: Iterable[LintProblem], waivers: Iterable[Waiver]
) -> tuple[list[LintProblem], list[Waived], frozenset[Waiver]]:
    """Return what is left, what is waived, and which waivers were of use; without a reason, one waives nothing."""
    by_line: Mapping[tuple[str, int, str], Waiver] = {
        (waiver.place.path, waiver.line, waiver.rule): waiver for waiver in waivers
    }
    left: list[LintProblem] = []
    waived: list[Waived] = []
    used: set[Waiver] = set()
    for problem in problems:
        waiver = by_line.get((problem.place.path, problem.place.line, problem.rule))
        if waiver is not None:
            used.add(waiver)
        if waiver is None or not waiver.reason:
            left.append(problem)
        else:
            waived.append(Waived(problem=problem, reason=waiver.reason, in_source=True))
    return left, waived, frozenset(used)
