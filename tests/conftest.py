"""What holds for all tests, and how they are shared out between processes."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

# A deadline measures how busy the machine is, not the code: tests share it with servers that other tests start.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
# Tests keep whole recordings, parsed: by default a quarter of their time goes into looking there for what is garbage.
gc.set_threshold(50_000, 20, 100)

# What takes longest begins first, so that no process is alone with it at the end.
LONGEST = (
    "tests/tuning/test_suggested_live.py",
    "tests/collect/test_live_triton.py",
    "tests/captures/test_accuracy.py",
    "tests/benchmark/test_benchmark.py",
    "tests/tuning/test_suggested.py",
    "tests/browser/test_page.py",
    "tests/captures/test_damage.py",
    "tests/browser/test_page_of_two.py",
    "tests/repository/test_wheel.py",
    "tests/checks/test_contract.py",
    "tests/checks/test_mutants.py",
)
# Files that replay the same recordings, or parse the same modules, and remember what they found.
TOGETHER = {
    "tests/tuning/test_suggested.py": "tests/benchmark/test_benchmark.py",
    "tests/gen/test_alertmanager_config.py": "tests/gen/test_generated_rules.py",
    "tests/gen/test_stretched_captures.py": "tests/gen/test_generated_rules.py",
    "tests/repository/test_docs.py": "tests/repository/test_style.py",
    "tests/repository/test_layers.py": "tests/repository/test_style.py",
    "tests/repository/test_names.py": "tests/repository/test_style.py",
    "tests/repository/test_patterns.py": "tests/repository/test_style.py",
}
# Files whose tests share nothing and mostly wait for servers: each test goes to whichever process is free.
SCATTERED = (
    "tests/demo/test_live_server.py",
    "tests/service/test_live_otlp.py",
    "tests/service/test_live_outages.py",
    "tests/service/test_serving.py",
    "tests/service/notifications/test_live_alertmanager.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; all else stays in its order."""
    place = {file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(file_of(item.nodeid), len(LONGEST)))


class Sharing(LoadFileScheduling):
    """Each file is one process's, and so are all files that belong together; they begin in the order given above."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # by default files of many tests begin first, however short they are
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return nodeid if file in SCATTERED else TOGETHER.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing | None:
    """Share the tests out as `--dist loadfile` does, but for the files that are named here."""
    return Sharing(config, log) if config.getvalue("dist") == "loadfile" else None


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
