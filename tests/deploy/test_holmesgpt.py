"""The toolset for HolmesGPT: every command, filled in as HolmesGPT does, is one that `diag` takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from diagnostics.cli.main import main

ROOT = Path(__file__).parents[2]
TOOLS = yaml.safe_load((ROOT / "deploy/holmesgpt/toolset.yaml").read_text("utf-8"))["toolsets"]["triton-diagnostics"][
    "tools"
]
CAPTURE = str(ROOT / "fixtures/captures/cpu-handed-single-instance.tar.xz")
GIVEN = {
    **dict.fromkeys(("source", "before", "after"), CAPTURE),
    "check": "cold-start",
    "setting": "safety.instance_group.count=2",
    "path": str(ROOT / "fixtures/reference"),
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_its_command_runs(tool: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    filled = re.sub(r"{{ (\w+) }}", lambda found: GIVEN[found[1]], tool["command"])
    program, *arguments = shlex.split(filled)
    assert program == "diag"

    code = main(arguments)

    written = capsys.readouterr()
    if tool["name"] == "diag_service":  # which runs nowhere here
        assert (code, "no service answers" in written.err) == (3, True)
    else:
        assert (code, written.err) == (0, "")
        assert written.out
