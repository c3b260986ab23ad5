"""What `diag lint` calls an error is what a real Triton refuses, for every single change of `mistakes.py`."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import mistakes
import pytest

from diagnostics.lint.problem import LintSeverity
from diagnostics.lint.run import lint

REFUSALS: Mapping[str, str] = json.loads(mistakes.REFUSALS.read_text("utf-8"))
# Refused on the machine that was asked, and not on every other.
DEPENDS_ON_THE_MACHINE = {
    "model: kind: KIND_CPU → kind: KIND_AUTO gpus: [ 0 ]": "KIND_AUTO with GPUs is KIND_GPU where there is one",
    'model: + parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/nowhere/env.tar.gz" } }': "a path of it",
    "model: kind: KIND_CPU → kind: KIND_GPU gpus: [ 7 ]": "a GPU may be there",
    "model: kind: KIND_CPU → kind: KIND_GPU gpus: [ 0, 0 ]": "a GPU may be there",
    'model: + parameters { key: "EXECUTION_ENV_PATH" value '
    '{ string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }': "an archive is seldom kept beside its configuration",
    'model: + model_repository_agents { agents [ { name: "checksum" } ] }': "an agent may be installed",
}
# A tenth of the table, spread over all of it, is asked of a server in each run of the tests.
SAMPLE = list(mistakes.CHANGES)[::10]


def test_every_change_was_tried_on_a_real_server() -> None:
    assert list(REFUSALS) == list(mistakes.CHANGES)
    assert set(DEPENDS_ON_THE_MACHINE) <= {title for title, reason in REFUSALS.items() if reason}
    assert len([reason for reason in REFUSALS.values() if reason]) > 150
    assert [title for title, change in mistakes.CHANGES.items() if not change.new and not change.old] == [
        f"{base}: + " for base in dict.fromkeys(change.base for change in mistakes.CHANGES.values())
    ]


def test_the_page_says_how_many_changes_were_tried() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/lint-in-ci.md"

    assert f"{len(REFUSALS)} single changes to working configurations" in page.read_text()


def test_lint_reports_an_error_exactly_where_the_server_refuses(tmp_path: Path) -> None:
    wrong = {}
    for number, (title, change) in enumerate(mistakes.CHANGES.items()):
        folder = tmp_path / str(number) / "models"
        change.write(folder)
        report = lint([folder])
        errors = [problem.message for problem in report.problems if problem.severity is LintSeverity.ERROR]
        assert not report.failures, title
        if title not in DEPENDS_ON_THE_MACHINE and bool(errors) != bool(REFUSALS[title]):
            wrong[title] = (REFUSALS[title], errors)

    assert wrong == {}


@pytest.mark.live
def test_a_real_server_still_refuses_what_the_table_says(tmp_path: Path) -> None:
    ends = {mistakes.CRASHED, mistakes.ENDLESS}
    sample = {title: mistakes.CHANGES[title] for title in SAMPLE if REFUSALS[title] not in ends}

    found = dict(ChainMap(*mistakes.of_servers(sample, tmp_path / "models")))

    assert {title: bool(reason) for title, reason in found.items()} == {t: bool(REFUSALS[t]) for t in sample}
