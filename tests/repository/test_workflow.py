"""What runs on GitHub and before a commit are the targets that .ci/run and the Makefile have."""

from __future__ import annotations

import re
import shlex
import tomllib

import yaml

from diagnostics.cli.main import diag
from tests.repository.source import ROOT

_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def _made(text: str) -> list[str]:
    """Return the commands of make in a script, in their order."""
    return re.findall(r"(?:^|[ '])(make(?: -\S+)*(?: [a-z][a-z -]*[a-z]))$", text, re.MULTILINE)


def test_the_workflow_makes_what_the_script_makes() -> None:
    script = [
        line.partition("' ")[2] for line in (ROOT / ".ci/run").read_text("utf-8").splitlines() if "phase '" in line
    ]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    made = [command for step in steps for command in _made(step)]
    assert script
    assert [command for command in made if command in script] == script
    assert {word for command in made for word in command.split()[1:] if not word.startswith("-")} <= _TARGETS


def test_hooks_before_a_commit_are_targets() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    entries = [hook["entry"].split() for repo in config["repos"] for hook in repo["hooks"]]
    assert entries
    assert all(program == "make" and target in _TARGETS for program, target in entries)


def test_the_hook_that_others_use_brings_what_linting_needs() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert hook["additional_dependencies"] == project["optional-dependencies"]["lint"]


def test_the_action_calls_the_command_as_it_is() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    script = action["runs"]["steps"][-1]["run"].splitlines()
    (command,) = [shlex.split(line.replace("$PATHS", "models")) for line in script if " lint " in line]
    arguments = command[2 : command.index(">")]
    lint = diag.commands.get("lint") or diag.get_command(None, "lint")
    inputs = action["inputs"]
    given = [inputs["fail-on"]["default"] if word == "$FAIL_ON" else word for word in arguments]
    with lint.make_context("lint", given) as context:
        assert context.params["output"] == "sarif"
        assert context.params["fail_on"] == "error"
    assert all(f"inputs.{name}" in str(action) for name in inputs)


def test_a_release_has_what_make_dist_builds() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    steps = [step.get("run", "") for step in workflow["jobs"]["build"]["steps"]]
    assert [command for step in steps for command in _made(step)] == ["make dist"]
