from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
from fluidattacks_core.sarif import SarifLog
from trees import BATCHES, RULE, RULES, model, rule_that, write

from diagnostics.cli import lint as verb
from diagnostics.cli.main import main
from diagnostics.lint.catalogue import catalogue
from diagnostics.lint.problem import LintSeverity
from diagnostics.lint.rule import LintTopic
from diagnostics.lint.run import LintReport, lint
from diagnostics.render.lint.json import lint_report, lint_sarif, lint_schema
from diagnostics.render.lint.text import lint_text
from tests.render.schemas import closed

WAIVED = model("b", "# diag: ignore[no-warm-up] as agreed\nmax_batch_size: 2\n")
Printed = pytest.CaptureFixture[str]
_PAGES = Path(__file__).parents[2] / "rules/lint"


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, {**model("a"), **WAIVED}))
    monkeypatch.setattr(verb, "chosen", lambda _: RULES)


def _report() -> LintReport:
    return lint([Path("models")], rules=RULES)


def test_text_is_a_line_a_problem_and_a_line_of_sums() -> None:
    reported = (
        "models/a/config.pbtxt:3:1: warning: a batches [no-warm-up]\n    do not\n1 warning in 2 models; 1 waived\n"
    )
    assert lint_text(_report()) == reported


def test_text_cannot_be_made_to_move_the_cursor() -> None:
    write(Path(), {"models/\x1b[2J/config.pbtxt": "max_batch_size: 4"})

    assert "\x1b" not in lint_text(_report())


def test_json_meets_its_schema_and_holds_place_fix_and_reason() -> None:
    reported = lint_report(_report())

    jsonschema.validate(reported, closed(lint_schema()))
    (problem,) = reported["problems"]
    assert (problem["path"], problem["line"], problem["column"]) == ("models/a/config.pbtxt", 3, 1)
    assert problem["fix"] == {"model": "a", "settings": [{"path": "max_batch_size", "value": 0}]}
    assert [(one["path"], one["reason"], one["by"]) for one in reported["waived"]] == [
        ("models/b/config.pbtxt", "as agreed", "comment")
    ]


def test_sarif_names_rule_level_and_place_and_suppresses_what_is_waived() -> None:
    log = lint_sarif(_report())

    (run,) = log["runs"]
    reported, waived = run["results"]
    assert log["version"] == "2.1.0"
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["tool"]["driver"]["rules"][reported["ruleIndex"]]["id"] == reported["ruleId"] == RULE
    assert reported["level"] == "warning"
    assert reported["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "models/a/config.pbtxt"},
        "region": {"startLine": 3, "startColumn": 1},
    }
    assert "suppressions" not in reported
    assert waived["suppressions"] == [{"kind": "inSource", "justification": "as agreed"}]


def test_sarif_is_what_its_schema_says_with_fixes_waivers_and_rules_that_failed() -> None:
    write(Path(), {"models/a b#/config.pbtxt": "max_batch_size: 4"})
    log = lint_sarif(lint([Path("models")], rules=RULES | {"broken": rule_that(lambda _: 1 / 0)}), "https://a/lint")

    SarifLog.model_validate_json(json.dumps(log), strict=True)
    (run,) = log["runs"]
    assert run["invocations"][0]["toolExecutionNotifications"]
    assert {"fixes", "suppressions"} <= {key for result in run["results"] for key in result}
    run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(ValueError, match="startLine"):
        SarifLog.model_validate_json(json.dumps(log), strict=True)


def test_a_fingerprint_stays_while_lines_move_and_values_change_and_is_each_problem_s_own() -> None:
    rule = rule_that(lambda view: (view.problem(f"{n} of 8", at=view.config.at("max_batch_size")) for n in (1, 2)))

    def marks() -> list[str]:
        (run,) = lint_sarif(lint([Path("models")], rules=RULES | {"twice": rule}))["runs"]
        return [result["partialFingerprints"]["diagProblem/v1"] for result in run["results"]]

    before = marks()
    for file in Path("models").glob("*/config.pbtxt"):
        file.write_text(f"# moved\n\n{file.read_text().replace('max_batch_size: ', 'max_batch_size: 1')}")

    assert marks() == before
    assert len(set(before)) == len(before) == 6


def test_rules_link_to_their_pages_where_an_address_is_given(capsys: Printed) -> None:
    assert main(["lint", "models", "--output", "sarif", "--runbooks", "https://git.example.org/lint/"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["helpUri"] == f"https://git.example.org/lint/{rule['id']}.md"
        assert (_PAGES / f"{rule['id']}.md").is_file()
    assert not any("helpUri" in rule for rule in lint_sarif(_report())["runs"][0]["tool"]["driver"]["rules"])


def test_a_sarif_fix_replaces_the_line_that_is_wrong() -> None:
    (change,) = lint_sarif(_report())["runs"][0]["results"][0]["fixes"][0]["artifactChanges"]

    region = {"startLine": 3, "startColumn": 1, "endLine": 4, "endColumn": 1}
    assert change["replacements"] == [{"deletedRegion": region, "insertedContent": {"text": "max_batch_size: 0\n"}}]


@pytest.mark.parametrize("severity", LintSeverity)
def test_every_severity_has_a_level_of_sarif(severity: LintSeverity) -> None:
    rule = rule_that(BATCHES.lint, severity=severity)

    (result, *_) = lint_sarif(lint([Path("models")], rules={RULE: rule}))["runs"][0]["results"]

    assert result["level"] == {"error": "error", "warning": "warning", "info": "note"}[severity]


def test_a_path_is_a_uri_in_sarif() -> None:
    write(Path(), {"models/a b#/config.pbtxt": "max_batch_size: 4"})

    results = lint_sarif(lint([Path("models/a b#").absolute()], rules=RULES))["runs"][0]["results"]

    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith("file:///")
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b%23/config.pbtxt")


def test_fix_prints_a_patch_that_applies_and_mends(capsys: Printed) -> None:
    assert main(["lint", "models", "--fix"]) == 0
    printed = capsys.readouterr()
    subprocess.run(["patch", "-p1", "--silent"], input=printed.out, text=True, check=True)

    assert "the patch mends 1 problem" in printed.err
    assert _report().problems == ()


@pytest.mark.parametrize("given", ["models", "./models", "../{here}/models", "{folder}/models"])
def test_a_patch_names_files_from_where_it_is_made_however_they_are_given(given: str, capsys: Printed) -> None:
    main(["lint", given.format(here=Path.cwd().name, folder=Path.cwd()), "--fix"])
    printed = capsys.readouterr()

    assert printed.out.startswith("--- a/models/a/config.pbtxt\n+++ b/models/a/config.pbtxt\n")
    assert "apply it with" not in printed.err


def test_a_patch_of_files_elsewhere_says_where_it_applies(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    models = Path("models").absolute()
    Path("work").mkdir()
    monkeypatch.chdir("work")

    main(["lint", "../models", "--fix"])
    printed = capsys.readouterr()

    assert printed.out.startswith(f"--- a{models}/a/config.pbtxt\n")
    assert printed.err.endswith("apply it with patch -p1 -d /\n")
    subprocess.run(["patch", "-p1", "-d", "/", "--silent", "--dry-run"], input=printed.out, text=True, check=True)


def test_fixes_that_contradict_each_other_are_not_all_in_the_patch(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"max_batch_size: 0": 0, "max_batch_size: 2": 2}
    rules = {name: rule_that(_setting(value)) for name, value in others.items()}
    monkeypatch.setattr(verb, "chosen", lambda _: rules)

    main(["lint", "models/a", "--fix"])

    printed = capsys.readouterr()
    assert "+max_batch_size: 0\n" in printed.out
    assert "is not in the patch: another fix sets max_batch_size to 0" in printed.err


def _setting(value: int) -> object:
    from diagnostics.tuning.changes import ConfigChange, Setting

    def reported(view):  # type: ignore[no-untyped-def]
        fix = ConfigChange(model=view.model.name, settings=(Setting(path="max_batch_size", value=value),))
        yield view.problem("x", at=view.config.at("max_batch_size"), fix=fix)

    return reported


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["models"], 0),
        (["models", "--fail-on", "warning"], 1),
        (["models", "--fail-on", "info"], 1),
        (["models", "--fail-on", "never"], 0),
        (["models", "--output", "json", "--fail-on", "warning"], 1),
        (["models", "--output", "sarif"], 0),
        ([], 2),
        (["models", "--fix", "--output", "json"], 2),
        (["models", "--config", "nowhere.toml"], 2),
        (["models", "--runbooks", "https://git.example.org/lint"], 2),
        (["models", "--output", "sarif", "--runbooks", "rules/lint"], 2),
        (["--explain", "no-warmup"], 2),
        (["nowhere"], 3),
    ],
)
def test_the_exit_code_says_what_happened(arguments: list[str], code: int, capsys: Printed) -> None:
    assert main(["lint", *arguments]) == code
    captured = capsys.readouterr()
    assert bool(captured.out) is (code < 2)
    assert len(captured.err.splitlines()) == (code >= 2)


def test_nothing_readable_and_a_rule_that_fails_are_no_success(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path(), {"broken/x/config.pbtxt": "name"})
    assert main(["lint", "broken", "--fail-on", "never"]) == 3
    monkeypatch.setattr(verb, "chosen", lambda _: {RULE: rule_that(lambda _: 1 / 0)})

    assert main(["lint", "models"]) == 3
    assert "diag: the rule no-warm-up failed: ZeroDivisionError" in capsys.readouterr().err


def test_the_nearest_settings_are_read(capsys: Printed) -> None:
    Path(".diag-lint.toml").write_text('[rules.no-warm-up]\nseverity = "error"\n')

    assert main(["lint", "models"]) == 1
    assert "1 error in 2 models" in capsys.readouterr().out


def test_the_rules_are_listed_by_question_within_80_columns_and_each_has_a_page(capsys: Printed) -> None:
    main(["lint", "--rules"])
    listed = capsys.readouterr().out

    assert all(f"  {identifier} " in listed for identifier in catalogue())
    assert LintTopic.READABLE in listed
    assert max(map(len, listed.splitlines())) <= 80
    main(["lint", "--explain", RULE])
    assert "## Sources" in capsys.readouterr().out


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_names_that_are_no_text_can_be_reported(output: str, capsys: Printed) -> None:
    folder = Path(os.fsdecode(b"odd/\xff\n"))
    folder.mkdir(parents=True)
    (folder / "config.pbtxt").write_text("max_batch_size: 4")

    assert main(["lint", "odd", "--output", output, "--fail-on", "warning"]) == 1
    reported = capsys.readouterr().out
    assert json.loads(reported) if output != "text" else len(reported.splitlines()) == 3
    assert main(["lint", "odd", "--fix"]) == 0
    assert "its path cannot stand in a patch" in capsys.readouterr().err


def test_a_patch_of_a_file_with_a_byte_order_mark_and_carriage_returns_applies(capsys: Printed) -> None:
    path = Path("models/a/config.pbtxt")
    path.write_bytes("\ufeffmax_batch_size: 4\r\nname: 'a'\r\n".encode())

    main(["lint", "models/a", "--fix"])
    patch = capsys.readouterr().out
    subprocess.run(["patch", "-p1", "--silent", "--binary"], input=patch.encode(), check=True)

    assert path.read_bytes() == "\ufeffmax_batch_size: 0\r\nname: 'a'\r\n".encode()


def test_what_is_reported_beside_a_patch_cannot_move_the_cursor_either(capsys: Printed) -> None:
    write(Path(), {"models/\x1b[2J/config.pbtxt": "max_batch_size: 4"})

    main(["lint", "models", "--fix"])

    reported = capsys.readouterr().err
    assert "cannot stand in a patch" in reported
    assert "\x1b" not in reported


def test_a_file_that_is_named_and_cannot_be_read_says_why(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "chosen", lambda _: {"unreadable-file": catalogue()["unreadable-file"]})
    write(Path(), {"board.json": b'{"panels": \xff}'})

    assert main(["lint", "board.json"]) == 3
    assert "board.json:1:1: info: is not UTF-8 text at byte 11" in capsys.readouterr().out
