from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest

from diagnostics import errors
from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import diag
from diagnostics.wire.capture_layout import place
from diagnostics.wire.records import BodyKind, Scrape
from tests.browser import draw
from tests.repository.pages import commands, every_page, spans, without_code, written
from tests.repository.source import PRODUCT, ROOT, modules, texts

LONGEST_README = 150
_PATH = re.compile(r"(?:diagnostics|exporters|tests|rules|docs|fixtures|deploy|dashboards)/[\w./*-]*")
_VARIABLE = re.compile(r"(?:DIAG_[A-Z_]+|NO_COLOR)")
# Unfinished thoughts, and paths of one machine.
_FORBIDDEN = re.compile(
    r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b|(?<![\w.$}/-])/(?:home|root|Users|work|mnt)/\w|/tmp/\w{1,2}/"
)


def _page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@cache
def _tracked() -> tuple[str, ...]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a clone, so there is no list of its files")
    return tuple(name for name in done.stdout.split("\0") if name)


def _verbs() -> list[str]:
    return diag.list_commands(click.Context(diag))


def _exit_codes() -> dict[str, int]:
    return {name: value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def _variables() -> set[str]:
    every = (text.value for tree in modules(*PRODUCT).values() for text in texts(tree))
    return {value for value in every if _VARIABLE.fullmatch(value)}


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", _page("Makefile"), re.MULTILINE))


def test_generated_pages_are_fresh() -> None:
    # In a process of its own: the reference of commands follows what other tests leave in this one.
    done = subprocess.run(
        [sys.executable, "-m", "docs", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["checks", "http-api", "metrics", "settings"])
def test_rows_of_the_reference_say_what_they_mean(name: str) -> None:
    rows = re.findall(r"^\|.*\|$", _page(f"docs/reference/{name}.md"), re.MULTILINE)
    assert rows
    assert not [row for row in rows if re.search(r"\|\s*\|$", row)]


def test_the_readme_is_short() -> None:
    assert len(_page("README.md").splitlines()) <= LONGEST_README


def test_the_readme_and_the_page_of_accuracy_agree() -> None:
    page = _page("docs/explanation/accuracy.md")
    (score,) = re.findall(
        r"score fixtures/benchmark\n(?:.*\n)*?top-1 (\d+ of \d+), .* wrong 0\n.*alarms 0 of (\d+)", page
    )
    assert f"it names {score[0]} causes and none wrongly" in _page("README.md")
    assert f"None of {score[1]} healthy recordings" in _page("README.md")


@pytest.mark.parametrize("identifier", catalogue())
def test_the_reference_names_the_check(identifier: str) -> None:
    assert f"[`{identifier}`](../../rules/runbooks/{identifier}.md)" in _page("docs/reference/checks.md")


@pytest.mark.parametrize("kind", BodyKind)
def test_the_reference_has_a_row_for_each_part_of_a_capture(kind: BodyKind) -> None:
    name = {BodyKind.CONFIG: "MODEL", BodyKind.REPOSITORY: "FILE"}.get(kind, "")
    part = place(Scrape(server="SERVER", kind=kind, at=7.0, mono=7.0, body=b"{}", name=name))
    shown = (
        re.sub("[A-Z]+", lambda found: f"<{found[0].lower()}>", part).replace("7000", "<ms>").replace("-1.", "-<n>.")
    )
    assert f"`{shown}`" in _page("docs/reference/captures.md")


@pytest.mark.parametrize("verb", _verbs())
def test_a_page_shows_the_verb(verb: str) -> None:
    assert any(["diag", verb] == words[:2] for text in written().values() for words in commands(text, "diag"))


@pytest.mark.parametrize(("name", "code"), _exit_codes().items())
def test_the_reference_has_a_row_for_the_exit_code(name: str, code: int) -> None:
    assert re.search(rf"^\| *`?{code}`? *\|", _page("docs/reference/exit-codes.md"), re.MULTILINE), name


def test_the_reference_names_every_environment_variable() -> None:
    variables = _variables()
    assert "DIAG_TRITON_ENV" in variables
    page = _page("docs/reference/environment.md")
    assert not [variable for variable in sorted(variables) if f"`{variable}`" not in page]


@pytest.mark.parametrize("target", ["demo", "test", "check", "docs", "bench", "accuracy"])
def test_contributors_are_shown_the_make_target(target: str) -> None:
    assert f"`make {target}`" in _page("CONTRIBUTING.md")


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_the_make_target(target: str) -> None:
    assert f"make {target}" in _page("README.md")


@pytest.mark.parametrize("name", written())
def test_commands_that_a_page_shows_exist(name: str) -> None:
    text = written()[name]
    wrong = [" ".join(words) for words in commands(text, "diag") if not _is_known(words)]
    targets = {word for words in commands(text, "make") for word in words[1:] if "=" not in word}
    assert not wrong
    assert targets <= _targets()


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_contributors_are_shown_exist(name: str) -> None:
    shown = {span for span in spans(_page(name)) if _PATH.fullmatch(span)}
    assert len(shown) > 20
    assert not [path for path in sorted(shown) if not any(ROOT.glob(path)) and "/my_" not in path]
    assert all((ROOT / path).parent.is_dir() for path in shown if "/my_" in path)


def _is_known(words: list[str]) -> bool:
    """Return whether the verbs and options of a command are those of the command line."""
    command: click.Command = diag
    options = {"--help", "-h", "--version"}
    for word in words[1:]:
        if isinstance(command, click.Group) and word in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), word)
            assert below is not None
            command = below
        elif word.startswith("-") and word != "-" and word.partition("=")[0] not in options | _options(command):
            return False
    return command is not diag or words[1].startswith("-")


def _options(command: click.Command) -> set[str]:
    """Return the options of a command; a verb with verbs below it takes those of its default, too."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return {name for each in (command, *below) for one in each.params for name in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize(
    "line", ["diag explain --no-such x", "diag nothing", "diag whatif slow.tar.xz --set a=b --why-not x"]
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    assert not _is_known(line.split())


def test_links_lead_to_files_and_headings() -> None:
    pages = {path: path.read_text("utf-8") for path in every_page()}
    links = [(path, link) for path, text in pages.items() for link in _links(text)]
    assert len(links) > 100
    assert not [f"{path.relative_to(ROOT)}: {link}" for path, link in links if not _leads_somewhere(path, link)]


def test_pictures_are_drawn_by_a_command_and_shown() -> None:
    shown = {link for path in every_page() for link in _links(path.read_text("utf-8")) if link.endswith(".png")}
    there = {path.stem for path in draw.FOLDER.iterdir()}
    assert there == set(draw.PICTURES) == {Path(link).stem for link in shown}


def _links(text: str) -> list[str]:
    return re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", without_code(text))


def _leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = path.parent / name if name else path
    if not target.exists() or not target.resolve().is_relative_to(ROOT):
        return False
    return not anchor or anchor in _anchors(target.read_text("utf-8"))


def _anchors(text: str) -> set[str]:
    fenced = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", fenced, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_no_file_holds_unfinished_thoughts_or_paths_of_one_machine() -> None:
    found = []
    for name in _tracked():
        path = ROOT / name
        if path.suffix in {".xz", ".png"} or not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if _FORBIDDEN.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not found
