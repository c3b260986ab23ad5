from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.problem import LintProblem
from diagnostics.lint.rule import HEADINGS, RuleCase
from diagnostics.lint.run import lint
from diagnostics.tuning.patch import edited

RULES = tuple(catalogue().values())
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

each_rule = pytest.mark.parametrize("found", [pytest.param(found, id=found.id) for found in RULES])


def reported(found: RegisteredRule, case: RuleCase) -> tuple[LintProblem, ...]:
    report = lint([Path(path) for path in case.paths], case.settings, {found.id: found})
    assert not report.failures
    return report.problems


@pytest.fixture
def written(found: RegisteredRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuleCase]:
    def each() -> Iterator[RuleCase]:
        for number, case in enumerate(found.cases):
            folder = tmp_path / str(number)
            folder.mkdir()
            case.write(folder)
            monkeypatch.chdir(folder)
            yield case

    return each()


@each_rule
def test_a_rule_has_a_stable_id_a_title_and_every_section(found: RegisteredRule) -> None:
    assert _ID.fullmatch(found.id)
    assert found.title
    assert tuple(found.sections()) == HEADINGS
    assert all(found.sections().values())


@each_rule
def test_a_rule_has_a_case_that_it_tells_and_one_that_it_does_not(found: RegisteredRule) -> None:
    assert {bool(case.places) for case in found.cases} == {True, False}


@each_rule
def test_each_limit_of_a_rule_has_a_reason(found: RegisteredRule) -> None:
    assert all(limit.because for limit in found.rule.limits.values())


@each_rule
def test_a_rule_says_of_each_case_what_it_states(found: RegisteredRule, written: Iterator[RuleCase]) -> None:
    stated = {case.title: reported(found, case) for case in written}

    assert {title: tuple(str(problem.place) for problem in problems) for title, problems in stated.items()} == {
        case.title: case.places for case in found.cases
    }
    assert len(stated) == len(found.cases)
    assert all(problem.rule == found.id and problem.message for problems in stated.values() for problem in problems)


@each_rule
def test_fixes_mend_what_they_are_reported_for(found: RegisteredRule, written: Iterator[RuleCase]) -> None:
    for case in written:
        mended = set()
        for problem in reported(found, case) if case.places else ():
            if problem.fix:
                path = Path(problem.place.path)
                path.write_text(edited(path.read_text(), problem.fix, problem.place.path))
                mended.add(str(problem.place))

        assert not mended or not mended & {str(problem.place) for problem in reported(found, case)}, case.title
