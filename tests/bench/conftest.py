"""What benchmarks measure is printed beside its goal at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_MEASURED = "measured"


class Goals:
    """Holds what a test measures to its goals, and notes both."""

    def __init__(self, note: Callable[[str, object], None]) -> None:
        self._note = note

    def at_least(self, what: str, value: float, goal: float) -> None:
        self._note(_MEASURED, (what, f"{value:.4g}", f"at least {goal:,.5g}"))
        assert value >= goal, what

    def at_most(self, what: str, value: float, goal: float) -> None:
        self._note(_MEASURED, (what, f"{value:.4g}", f"at most {goal:,.5g}"))
        assert value <= goal, what


@pytest.fixture
def goals(record_property: Callable[[str, object], None]) -> Goals:
    return Goals(record_property)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == _MEASURED]
    if not rows:
        return
    terminalreporter.section("measured, and the goal")
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for what, value, goal in rows:
        terminalreporter.write_line(f"{what:{widths[0]}}  {value:>{widths[1]}}  {goal}")
