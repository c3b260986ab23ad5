"""The README's forecasts are the first lines of what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnostics.cli.main import diag

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```text\n\$ diag ((?:whatif|tune|verify) (?:.*\\\n)*.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@pytest.mark.parametrize(("arguments", "shown"), _BLOCK.findall((ROOT / "README.md").read_text("utf-8")))
def test_a_shown_forecast_is_what_the_command_begins_with(
    arguments: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    printed = CliRunner().invoke(diag, shlex.split(arguments.replace("\\\n", " "))).stdout

    assert printed.splitlines()[: len(shown.splitlines())] == shown.splitlines()
