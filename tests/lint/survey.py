"""Lint source trees, and print a table of what was found: `python -m tests.lint.survey TREE[=NAME] ...`.

Made for fixtures/lint/README.md, from checkouts of public repositories, which are read and not kept.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnostics.lint.problem import LintSeverity
from diagnostics.lint.run import LintReport, lint

_SHOWN = {LintSeverity.ERROR: "errors", LintSeverity.WARNING: "warnings", LintSeverity.INFO: "notes"}


def main(given: Sequence[str]) -> int:
    print("| repository | models | " + " | ".join(_SHOWN.values()) + " |")
    print("|---|---|" + "---|" * len(_SHOWN))
    failed = False
    for tree, _, name in (one.partition("=") for one in given):
        report = lint([Path(tree)])
        failed |= bool(report.failures)
        print(f"| {name or Path(tree).name} | {report.models} | " + " | ".join(_cells(report)) + " |", flush=True)
    return int(failed)


def _cells(report: LintReport) -> Iterator[str]:
    for severity in _SHOWN:
        rules = Counter(one.rule for one in report.problems if one.severity is severity)
        yield ", ".join(f"{count} {rule}" for rule, count in rules.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
