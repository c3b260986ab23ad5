"""Whatever files hold, every rule answers, and answers about what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.lint.catalogue import catalogue
from diagnostics.lint.run import LintReport, lint

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "fixtures/reference"
# With what the rules' own cases hold, of stateful models and others that the reference deployment has none of.
CASES = [case.files for found in catalogue().values() for case in found.cases]
CONFIGS = [path.read_text("utf-8") for path in sorted(REFERENCE.rglob("config.pbtxt"))] + [
    text for files in CASES for name, text in files.items() if name.endswith("config.pbtxt") and isinstance(text, str)
]
LLM_ARGUMENTS = next(str(files[name]) for files in CASES for name in files if name.endswith("model.yaml"))
RULES = (ROOT / "rules/alerts/symptoms.yaml").read_text("utf-8")[:4000]
DASHBOARD = {
    "panels": [{"title": "t", "targets": [{"expr": "rate(x[5m])"}], "fieldConfig": {"defaults": {"unit": "s"}}}]
}
COMPOSE = """services:
  triton:
    image: nvcr.io/nvidia/tritonserver:25.01-py3
    command: [tritonserver, --model-repository=/models]
"""
PIECES = (
    "",
    "${x}",
    "}",
    "{",
    "[",
    "]",
    '"',
    "-1",
    "99999999999999999999",
    "nan",
    ":",
    "\n",
    "\x00",
    "é",
    "KIND_GPU",
    "0",
)


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@st.composite
def damaged(draw: st.DrawFn, texts: list[str]) -> str:
    """Draw a text with some pieces of it replaced."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + draw(st.integers(0, 12)) :]
    return text


def _linted(files: dict[str, str]) -> LintReport:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", errors="surrogatepass")
    return lint([Path("models")])


def _holds(report: LintReport, files: dict[str, str]) -> None:
    assert not report.failures
    for problem in report.problems:
        lines = files.get(problem.place.path, "").split("\n")
        assert 1 <= problem.place.line <= len(lines)
        assert 1 <= problem.place.column <= len(lines[problem.place.line - 1]) + 1
        assert "\n" not in problem.message


@given(first=damaged(CONFIGS), second=damaged(CONFIGS), arguments=damaged([LLM_ARGUMENTS]))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_to_configurations_breaks_a_rule(first: str, second: str, arguments: str) -> None:
    files = {
        "models/safety/config.pbtxt": first,
        "models/ensemble/config.pbtxt": second,
        "models/safety/1/model.py": "",
        "models/safety/1/model.yaml": arguments,
    }

    _holds(_linted(files), files)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "rate(x[5m])", "services", "nv_x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "services",
                    "command",
                    "image",
                    "expr",
                    "targets",
                    "panels",
                    "title",
                    "kind",
                    "spec",
                    "groups",
                    "rules",
                    "alert",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(compose=damaged([COMPOSE, RULES]), dashboard=VALUES | st.just(DASHBOARD))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_shape_of_deployment_files_breaks_a_rule(compose: str, dashboard: object) -> None:
    files = {
        "models/a/config.pbtxt": 'name: "a"',
        "compose.yaml": compose,
        "models/d.json": json.dumps({"panels": dashboard}),
    }

    _holds(_linted(files), files)
