"""Waivers and settings: what is accepted, where, and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import RULE, RULES, model, write

from diagnostics.errors import UsageError
from diagnostics.lint.run import LintReport, lint
from diagnostics.lint.settings import LintSettings, settings_file, settings_of


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _reported(report: LintReport) -> list[tuple[str, str]]:
    return [(problem.rule, str(problem.place)) for problem in report.problems]


def _linted(config: str, settings: LintSettings | None = None) -> LintReport:
    write(Path(), {"models/a/config.pbtxt": config})
    return lint([Path("models")], settings, RULES)


@pytest.mark.parametrize(
    "config",
    [
        "max_batch_size: 4  # diag: ignore[no-warm-up] as agreed",
        "# diag: ignore[no-warm-up] as agreed\n\n# more\nmax_batch_size: 4",
        "max_batch_size: 4 #diag:ignore[waiver-unused, no-warm-up]: as agreed",
    ],
)
def test_a_waiver_with_a_reason_waives_on_its_line_or_the_next_that_says_something(config: str) -> None:
    report = _linted(config)

    assert RULE not in dict(_reported(report))
    assert [(one.problem.rule, one.reason, one.in_source) for one in report.waived] == [(RULE, "as agreed", True)]


def test_a_waiver_without_a_reason_waives_nothing_and_is_reported() -> None:
    report = _linted("max_batch_size: 4  # diag: ignore[no-warm-up]")

    assert _reported(report) == [
        (RULE, "models/a/config.pbtxt:1:1"),
        ("waiver-without-reason", "models/a/config.pbtxt:1:20"),
    ]


def test_a_waiver_for_another_line_or_another_rule_is_unused_and_reported() -> None:
    report = _linted("# diag: ignore[no-warm-up] x\nname: 'a'\nmax_batch_size: 4 # diag: ignore[no-rule] x")

    assert [rule for rule, _ in _reported(report)] == ["waiver-unused", RULE, "waiver-unused"]


def test_a_waiver_of_a_rule_that_was_not_requested_is_not_called_unused() -> None:
    assert _reported(_linted("name: 'a' # diag: ignore[broken-text-format] x")) == []


def _settings(text: str, name: str = ".diag-lint.toml") -> LintSettings:
    Path(name).write_text(text)
    return settings_of(Path(name))


def test_settings_change_severities_and_disable_rules_with_a_reason() -> None:
    assert (
        _linted("max_batch_size: 4", _settings('[rules.no-warm-up]\nseverity = "info"')).problems[0].severity == "info"
    )

    report = _linted("max_batch_size: 4", _settings('[rules]\nno-warm-up = { disable = "loaded before traffic" }'))

    assert report.problems == ()
    assert [(one.reason, one.in_source) for one in report.waived] == [("loaded before traffic", False)]


def test_settings_for_paths_win_and_are_reported_from_the_folder_of_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path(), model("a") | model("b"))
    text = '[[paths]]\npath = "models/a/*"\n[paths.rules.no-warm-up]\ndisable = "an experiment"'
    settings = settings_of(write(Path.cwd(), {".diag-lint.toml": text}) / ".diag-lint.toml")
    monkeypatch.chdir("models")

    assert _reported(lint([Path()], settings, RULES)) == [(RULE, "b/config.pbtxt:3:1")]


def test_settings_know_what_only_the_team_can_know() -> None:
    settings = _settings('[tool.diag.lint]\nlatency_budget = "200ms"\ngpu_memory = "80GiB"', "pyproject.toml")

    assert (settings.latency_budget_seconds, settings.gpu_memory_bytes) == (0.2, 80 * 2**30)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latency_budget = 'soon'", "latency_budget: 'soon' is not a time such as 200ms"),
        ("latency_budgets = '1s'", "unknown field `latency_budgets`"),
        ("[rules.x]\nseverity = 'bad'", "severities are error, warning, info"),
        ("[rules.x]\ndisabled = 'y'", "unknown field `disabled`"),
        ("= 1", "is not TOML"),
        (f"a = {'[' * 9999}", "is not TOML"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        _settings(text)
    assert ".diag-lint.toml" in str(caught.value)


def test_settings_for_a_rule_that_there_is_not_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no rule 'x'"):
        _linted("max_batch_size: 4", _settings('[rules.x]\nseverity = "info"'))


def test_the_nearest_settings_count_up_to_the_git_repository(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"pyproject.toml": "[tool.diag.lint]\n", "a/pyproject.toml": "[project]\n", "a/b/x": "", "c/.git/x": ""},
    )
    assert settings_file(tmp_path / "a/b") is None

    write(tmp_path, {"pyproject.toml": "[tool.diag.lint.rules]\n", "a/.diag-lint.toml": ""})

    assert settings_file(tmp_path / "a/b") == tmp_path / "a/.diag-lint.toml"
    assert settings_file(tmp_path / "c") is None
    assert settings_file(tmp_path) == tmp_path / "pyproject.toml"


def test_the_settings_that_the_documentation_shows_are_settings(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs/how-to/lint-in-ci.md").read_text("utf-8")
    (shown,) = (block for block in page.split("```toml\n") if "latency_budget" in block)

    settings = _settings(shown.partition("```")[0])

    assert settings.latency_budget_seconds == 0.2
    assert settings.named() == {"no-warm-up", "dynamic-batching-off"}


def test_somebody_elses_file_around_a_repository_is_passed_over_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, {"a/b/pyproject.toml": f"a = {'[' * 9999}"})
    os.mkfifo(tmp_path / "a/pyproject.toml")

    assert settings_file(tmp_path / "a/b") is None
