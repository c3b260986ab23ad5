"""A plugin of pytest: tests run in the order in which their files were given, and none starts after some seconds."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

# In the environment, as each process of a run has the same: for how long tests start once they are collected.
SECONDS = "TESTS_SECONDS"
_END = pytest.StashKey[float]()
_OVER = "its time is over"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the clock, so that the nearest tests run on a busy machine, too."""
    session.config.stash[_END] = time.monotonic() + float(os.environ.get(SECONDS, "inf"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what would begin too late."""
    if time.monotonic() > item.config.stash[_END]:
        pytest.skip(_OVER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files of which tests were left out."""
    left = Counter(
        one.nodeid.partition("::")[0] for one in terminalreporter.getreports("skipped") if _OVER in f"{one.longrepr}"
    )
    for file, tests in left.items():
        terminalreporter.write_line(f"no time for {tests} tests: .venv/bin/pytest -q {file}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put back the order in which files were given."""
    place = {file.partition("::")[0]: number for number, file in enumerate(config.args)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))
