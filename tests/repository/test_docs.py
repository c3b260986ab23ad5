from __future__ import annotations

import re
import subprocess
from functools import cache

import click
import pytest
from source import PRODUCT, ROOT, modules, texts

from diagnostics import errors
from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import diag

_VARIABLE = re.compile(r"(?:DIAG_[A-Z_]+|NO_COLOR)")
# Unfinished thoughts, and paths of one machine.
_FORBIDDEN = re.compile(
    r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b|(?<![\w.$}/-])/(?:home|root|Users|work|mnt)/\w|/tmp/\w{1,2}/"
)


@cache
def _readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


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


@pytest.mark.parametrize("identifier", catalogue())
def test_the_readme_names_the_check(identifier: str) -> None:
    assert f"`{identifier}`" in _readme()


@pytest.mark.parametrize("verb", _verbs())
def test_the_readme_shows_the_verb(verb: str) -> None:
    assert f"diag {verb}" in _readme()


@pytest.mark.parametrize(("name", "code"), _exit_codes().items())
def test_the_readme_has_a_row_for_the_exit_code(name: str, code: int) -> None:
    assert re.search(rf"^\| *`?{code}`? *\|", _readme(), re.MULTILINE), name


def test_the_readme_names_every_environment_variable() -> None:
    variables = _variables()
    assert "DIAG_TRITON_ENV" in variables
    assert not [variable for variable in sorted(variables) if f"`{variable}`" not in _readme()]


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "accuracy"])
def test_the_readme_names_the_make_target(target: str) -> None:
    assert f"make {target}" in _readme()


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", _readme())
    assert not [link for link in links if not (ROOT / link).exists()]


def test_anchors_of_the_readme_are_headings_of_it() -> None:
    text = re.sub(r"```.*?```", "", _readme(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    anchors = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert anchors
    assert anchors <= named


def test_no_file_holds_unfinished_thoughts_or_paths_of_one_machine() -> None:
    found = []
    for name in _tracked():
        path = ROOT / name
        if path.suffix == ".xz" or not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if _FORBIDDEN.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not found
