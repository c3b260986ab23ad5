"""A broken formula fails a test: a handful at every run, all of them by `python -m tests.checks.mutate_formulas`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checks.exempt import EXEMPT
from tests.checks.mutate_formulas import FORMULAS, Broken
from tests.checks.mutate_limits import named
from tests.checks.mutation import JUDGES, ROOT


def test_a_broken_central_formula_fails_a_test() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.checks.mutate_formulas", "--few", "busy share books"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    assert found.stdout.startswith("0 of ")


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.what for formula in FORMULAS])
def test_a_formula_that_is_broken_stands_in_its_module(formula: Broken) -> None:
    path = ROOT / "diagnostics" / formula.module

    assert formula.parsed(path.read_text()) is not None


def test_numbers_that_are_exempt_exist_and_have_a_reason() -> None:
    there = {(str(path.relative_to(ROOT / "diagnostics")), name) for path, _, name, _ in named(tuple(JUDGES))}

    assert set(EXEMPT) <= there
    assert all(len(why.split()) >= 5 for _, why in EXEMPT.values())
