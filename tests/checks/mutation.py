"""Breaks one module at a time and sees whether a test notices: what the two commands beside it share.

Each broken module lives in a process of its own, forked before any of the product was imported; no file is touched.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

import hypothesis  # noqa: F401  (loaded once, before any process forks)
import pytest

ROOT = Path(__file__).parents[2]
# Tests that take seconds, read a clock, or move limits themselves: each may fail, or pass, for that alone.
LEFT_OUT = " and ".join(
    f"not {part}"
    for part in (
        "a_fifth",
        "absurd",
        "grows_with_the_length",
        "independent_requests_are",
        "live",
        "mutants",
        "thousand_series",
        "whatever_the_rhythm",
    )
)
_LIMITS = ("test_limits", "test_engine_limits", "test_gpu_and_host_limits", "test_numbers")
# Which tests judge a folder of the product: its own first, then those that stand on it.
JUDGES: Mapping[str, tuple[str, ...]] = {
    "checks": tuple(f"tests/checks/{name}.py" for name in _LIMITS),
    "signals": ("tests/signals",),
    "evidence": ("tests/evidence", "tests/checks/test_limits.py", "tests/diagnosis/test_findings.py"),
    "anatomy": ("tests/anatomy",),
    "window": ("tests/window",),
    "diagnosis": ("tests/diagnosis/test_findings.py", "tests/diagnosis/test_verdicts.py", "tests/diagnosis"),
    "tuning": ("tests/tuning", "tests/signals/test_busy_share.py"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One module, what is broken in it, and how to make its broken text from the true one."""

    path: Path
    what: str
    broken: Callable[[str], ast.Module]

    def __str__(self) -> str:
        """Return where it is and what is broken, on one line."""
        return f"{self.path.relative_to(ROOT / 'diagnostics')}: {self.what}"

    def judges(self) -> tuple[str, ...]:
        """Return the tests of the folder it is in."""
        return JUDGES[self.path.parent.name]


def survivors(mutants: Sequence[Mutant], paths: Sequence[str], at_once: int) -> Iterator[Mutant]:
    """Yield the mutants with which all tests pass, some at once; without paths each folder's own tests judge."""
    running: dict[int, Mutant] = {}
    for mutant in mutants:
        running[_start(mutant, paths or mutant.judges())] = mutant
        if len(running) >= at_once:
            yield from _ended(running)
    while running:
        yield from _ended(running)


def _ended(running: dict[int, Mutant]) -> Iterator[Mutant]:
    child, status = os.wait()
    mutant = running.pop(child)
    if os.waitstatus_to_exitcode(status) == 0:
        yield mutant


def _start(mutant: Mutant, paths: Sequence[str]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(_judge(mutant, paths))
        finally:
            # What breaks the judging itself is no notice of the mutant.
            os._exit(0)
    return child


def _judge(mutant: Mutant, paths: Sequence[str]) -> int:
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> object:
        if Path(loader.path) != mutant.path:
            return original(loader, fullname)
        tree = mutant.broken(mutant.path.read_text())
        return compile(ast.fix_missing_locations(tree), loader.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*quiet, "--hypothesis-seed=0", "-k", LEFT_OUT, *(path for path in paths if _exists(path))]))


def _exists(path: str) -> bool:
    return (ROOT / path.partition("::")[0]).exists()
