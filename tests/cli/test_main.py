from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from diagnostics import __version__
from diagnostics.cli import main as entry
from diagnostics.cli.main import diag, main
from diagnostics.errors import CollectError, MalformedBody, UsageError
from docs.command_pages import cli_page

RUN = "import sys; from diagnostics.cli.main import main; sys.exit(main())"


def run(*arguments: str, code: str = RUN, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, encoding="utf-8")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Make `diag try` run a function."""

    def install(function: Callable[[], object]) -> None:
        command = click.Command("try", callback=function)
        monkeypatch.setattr(type(diag), "get_command", lambda *_: command)

    return install


def raising(error: BaseException) -> Callable[[], object]:
    def function() -> None:
        raise error

    return function


def test_the_version_is_reported_without_importing_what_it_does_not_need():
    code = RUN.replace("sys.exit(main())", "main(); print(*sys.modules)")
    result = run("--version", code=code)
    version, modules = result.stdout.splitlines()
    assert version == f"diag {__version__}"
    assert not {"urllib3", "ssl", "json", "diagnostics.cli.record", "diagnostics.wire"} & set(modules.split())


def test_help_shows_examples_exit_codes_and_completion(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for part in ("Examples:", "diag record", "130 interrupted", "_DIAG_COMPLETE", "NO_COLOR"):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_help_tells_what_each_verb_does_in_a_whole_line(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2].partition("Examples:")[0]


@pytest.mark.parametrize("verb", entry.VERBS)
def test_the_help_of_every_verb_shows_examples_and_exit_codes(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Examples:\n    diag {verb}" in shown
    assert "Exit: 0" in shown


def test_a_verb_without_a_module_is_not_listed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entry, "VERBS", ("record", "dance"))
    assert diag.list_commands(click.Context(diag)) == ["record"]


def test_an_unknown_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]):
    assert main(["dance"]) == 2
    assert "No such command 'dance'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["explian"], "No such command 'explian'. Did you mean 'explain'?"),
        (["explain", "--output", "markdwn", "x"], "Did you mean 'markdown'?"),
        (["slo", "report", "--fail-on", "spend", "x"], "Did you mean 'spent'?"),
    ],
)
def test_what_was_probably_meant_is_named(arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert meant in capsys.readouterr().err


def test_nothing_is_named_where_nothing_is_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--output", "zzz", "x"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("is no address", where="x"), 2, "diag: x: is no address\n"),
        (CollectError("refused", where="y", hint="start it"), 3, "diag: y: refused; start it\n"),
        (MalformedBody("two\nlines"), 3, "diag: two lines\n"),
        (FileNotFoundError(2, "No such file", "z"), 3, "diag: z: no such file\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_failure_is_one_line_and_its_exit_code(verb, capsys, error, code, line):
    verb(raising(error))
    assert main(["try"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.lstrip("\n") == line


def test_an_internal_error_is_one_line_that_asks_for_a_report(verb, capsys, monkeypatch):
    monkeypatch.delenv("DIAG_DEBUG", raising=False)
    verb(raising(KeyError("model")))
    assert main(["try"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("diag: internal error: KeyError: 'model'; please report it")


def test_with_diag_debug_the_traceback_is_shown(verb, capsys, monkeypatch):
    monkeypatch.setenv("DIAG_DEBUG", "1")
    verb(raising(KeyError("model")))
    main(["try"])
    assert "Traceback" in capsys.readouterr().err


def test_a_verb_chooses_its_exit_code(verb):
    verb(lambda: click.get_current_context().exit(1))
    assert main(["try"]) == 1
    verb(lambda: None)
    assert main(["try"]) == 0


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_turned_off(verb, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seen: list[bool | None] = []
    verb(lambda: seen.append(click.get_current_context().color))
    main(["try"])
    assert seen == [False]


def test_a_reader_that_goes_away_is_no_failure_to_talk_about():
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 141


def test_a_terminal_without_unicode_does_not_crash_the_output():
    code = (
        "import sys, click; from diagnostics.cli import main as m;"
        "m.diag.add_command(click.Command('try', callback=lambda: click.echo('12 µs ×')));"
        "type(m.diag).get_command = lambda *_: m.diag.commands['try']; sys.exit(m.main(['try']))"
    )
    result = run(code=code, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("12 ")


def test_completion_is_offered_and_completes_verbs():
    assert "complete" in run(_DIAG_COMPLETE="bash_source").stdout
    completed = run(_DIAG_COMPLETE="bash_complete", COMP_WORDS="diag rec", COMP_CWORD="1")
    assert "record" in completed.stdout


def test_the_page_of_the_command_line_names_both_options_of_help() -> None:
    assert "  -h, --help  Show this message and exit." in cli_page()
