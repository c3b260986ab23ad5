"""What was probably meant: one answer everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import main
from diagnostics.spelling import close_to

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("single-instance", ["single-instance-serialization"]),
        ("singel-instance-serialization", ["single-instance-serialization"]),
        ("Single_Instance_Serialization", ["single-instance-serialization"]),
        ("serialization", ["bls-serialization", "single-instance-serialization"]),
        ("kv", []),
        ("nosuch", []),
        ("", []),
    ],
)
def test_a_prefix_comes_before_a_word_and_that_before_a_misspelling(given: str, meant: list[str]) -> None:
    assert close_to(given, catalogue()) == meant


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["checks", "single-instance"], "did you mean single-instance-serialization?"),
        (["explain", "x.tar.xz", "--why-not", "single-instance"], "did you mean single-instance-serialization?"),
        (["explain", "x.tar.xz", "--why-not", "nosuch"], "`diag checks` lists them"),
        (["lint", "--explain", "no-version"], "did you mean no-version-served?"),
        (["demo", "--fault", "single"], "did you mean single-instance?"),
        (["exlpain"], "Did you mean 'explain'?"),
    ],
)
def test_every_verb_suggests_the_same_way(arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert hint in capsys.readouterr().err


def test_nobody_else_looks_for_near_names() -> None:
    python = [*(ROOT / "diagnostics").rglob("*.py"), *(ROOT / "exporters").rglob("*.py")]
    users = {path.name for path in python if re.search(r"\bget_close_matches\b", path.read_text("utf-8"))}
    assert users == {"spelling.py"}
