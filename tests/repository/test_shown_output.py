"""What the README shows is what the commands print."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner
from source import ROOT

from diagnostics.cli.main import diag

_BLOCK = re.compile(r"^```console\n\$ diag (.+)\n((?:.*\n)*?)```$", re.MULTILINE)


def _blocks() -> list[tuple[str, str]]:
    return [match.groups() for match in _BLOCK.finditer((ROOT / "README.md").read_text("utf-8"))]


@pytest.mark.parametrize(("arguments", "shown"), _blocks())
def test_a_shown_command_prints_what_is_shown(arguments: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    result = CliRunner().invoke(diag, shlex.split(arguments))

    assert result.stdout == shown


def test_the_readme_shows_real_output_on_its_first_screen() -> None:
    assert _blocks()
    assert (ROOT / "README.md").read_text("utf-8").index("$ diag") < 1000
