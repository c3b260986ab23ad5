from __future__ import annotations

import json

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import main

Printed = pytest.CaptureFixture[str]


def _reported(capsys: Printed, *arguments: str) -> str:
    assert main(["checks", *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_names_every_check_and_its_layer_within_80_columns(capsys: Printed) -> None:
    lines = _reported(capsys).splitlines()
    assert max(map(len, lines)) <= 80
    listed = {(line.split()[0], line.split()[1]) for line in lines if not line.startswith(" ")}
    assert listed == {("id", "layer")} | {(found.id, found.check.layer.value) for found in catalogue().values()}


@pytest.mark.parametrize("identifier", catalogue())
def test_a_checks_page_holds_its_whole_runbook_and_its_limits_within_80_columns(
    capsys: Printed, identifier: str
) -> None:
    found, text = catalogue()[identifier], _reported(capsys, identifier)
    assert max(map(len, text.splitlines())) <= 80
    words = text.split()
    for section in found.sections().values():
        expected = section.split()
        assert any(words[at : at + len(expected)] == expected for at in range(len(words)))
    for limit in found.check.limits.values():
        assert limit.because in " ".join(words)


def test_the_name_of_an_alert_finds_its_check(capsys: Printed) -> None:
    assert _reported(capsys, "TritonDiagColdStart") == _reported(capsys, "cold-start")


@pytest.mark.parametrize("near", ["cold-strat", "cold_start", "Cold-Start"])
def test_an_unknown_id_is_one_line_with_the_nearest(capsys: Printed, near: str) -> None:
    assert main(["checks", near]) == 2
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.count("\n") == 1
    assert "did you mean cold-start" in reported.err


def test_an_id_like_no_other_is_reported_where_the_list_is(capsys: Printed) -> None:
    assert main(["checks", "zzzzzz"]) == 2
    assert "diag checks" in capsys.readouterr().err


def test_json_lists_the_same_checks_and_one_with_its_limits(capsys: Printed) -> None:
    listed = json.loads(_reported(capsys, "--output", "json"))
    assert (listed["schema_version"], listed["kind"]) == (1, "checks")
    assert {one["id"] for one in listed["checks"]} == set(catalogue())
    one = json.loads(_reported(capsys, "cold-start", "--output", "json"))["check"]
    limit = catalogue()["cold-start"].check.limits["cold_slowdown"]
    assert one["limits"]["cold_slowdown"] == {"value": limit.value, "unit": limit.unit.value, "because": limit.because}
    assert list(one["sections"]) == ["Looks for", "Means", "Rules out", "Do", "Sources"]
