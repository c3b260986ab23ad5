from __future__ import annotations

import re
from pathlib import Path

import pytest

from diagnostics.lint.catalogue import Registered, catalogue
from diagnostics.lint.problem import Problem
from diagnostics.lint.rule import HEADINGS, Case
from diagnostics.lint.run import lint
from diagnostics.tuning.patch import edited

RULES = tuple(catalogue().values())
CASES = tuple((found, case) for found in RULES for case in found.cases)
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

each_rule = pytest.mark.parametrize("found", [pytest.param(found, id=found.id) for found in RULES])
each_case = pytest.mark.parametrize(
    ("found", "case"), [pytest.param(found, case, id=f"{found.id} {case.title}") for found, case in CASES]
)


def told(found: Registered, case: Case, folder: Path) -> tuple[Problem, ...]:
    case.write(folder)
    report = lint([Path()], case.settings, {found.id: found})
    assert not report.failures
    return report.problems


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@each_rule
def test_a_rule_has_a_stable_id_a_title_and_every_section(found: Registered) -> None:
    assert _ID.fullmatch(found.id)
    assert found.title
    assert tuple(found.sections()) == HEADINGS
    assert all(found.sections().values())


@each_rule
def test_a_rule_has_a_case_that_it_tells_and_one_that_it_does_not(found: Registered) -> None:
    assert {bool(case.places) for case in found.cases} == {True, False}


@each_rule
def test_each_limit_of_a_rule_has_a_reason(found: Registered) -> None:
    assert all(limit.because for limit in found.rule.limits.values())


@each_case
def test_a_rule_says_of_a_case_what_it_states(found: Registered, case: Case, tmp_path: Path) -> None:
    problems = told(found, case, tmp_path)

    assert tuple(str(problem.place) for problem in problems) == case.places
    assert all(problem.rule == found.id and problem.message for problem in problems)


@each_case
def test_fixes_mend_what_they_are_told_for(found: Registered, case: Case, tmp_path: Path) -> None:
    mended = set()
    for problem in told(found, case, tmp_path):
        if problem.fix:
            path = Path(problem.place.path)
            path.write_text(edited(path.read_text(), problem.fix, problem.place.path))
            mended.add(str(problem.place))

    assert not mended & {str(problem.place) for problem in lint([Path()], case.settings, {found.id: found}).problems}
