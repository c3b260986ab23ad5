"""Settings, metrics, files and modules that pages name exist."""

from __future__ import annotations

import importlib.util
import re
import tomllib

import pytest
import yaml

from diagnostics.settings.tree import Settings
from tests.repository.pages import blocks, commands, spans, written
from tests.repository.source import ROOT

_FOLDERS = "dashboards|deploy|diagnostics|docs|exporters|fixtures|rules|tests"
_PATH = re.compile(rf"(?:{_FOLDERS})/[\w.*/-]*")
# Examples of lint's own settings, which a test of lint reads.
_OTHER_SETTINGS = "docs/how-to/lint-in-ci.md"


def _settings() -> set[str]:
    """Return every setting of a single table, by its dotted name."""
    tables = {name: type(field.default) for name, field in Settings.model_fields.items()}
    return {f"{name}.{key}" for name, kind in tables.items() for key in getattr(kind, "model_fields", ())}


def _chart_values() -> set[str]:
    """Return the dotted names of the chart's values, which pages name too."""
    values = yaml.safe_load((ROOT / "deploy/helm/triton-diagnostics/values.yaml").read_text("utf-8"))
    return {f"{name}.{key}" for name, table in values.items() if isinstance(table, dict) for key in table}


def _dotted(text: str) -> set[str]:
    """Return what a page calls by the dotted name of a setting, or by its variable."""
    tables = "|".join({name.partition(".")[0] for name in _settings()})
    found = {one[0] for span in spans(text) for one in re.finditer(rf"^(?:{tables})\.\w+", span)}
    return found | {one[1].lower().replace("__", ".", 1) for one in re.finditer(r"\bDIAG_([A-Z]+__[A-Z_]+)", text)}


@pytest.mark.parametrize("name", written())
def test_settings_that_a_page_names_exist(name: str) -> None:
    examples = {"section.key", "diag.toml", "web.yml"}
    assert _dotted(written()[name]) - examples <= _settings() | _chart_values()


def test_settings_are_found_in_pages() -> None:
    assert len({one for text in written().values() for one in _dotted(text)} & _settings()) > 10


@pytest.mark.parametrize("name", [name for name in written() if name != _OTHER_SETTINGS])
def test_settings_files_that_a_page_shows_can_be_read(name: str) -> None:
    for block in blocks(written()[name], "toml"):
        Settings.model_validate(tomllib.loads(block))


@pytest.mark.parametrize("name", written())
def test_metrics_that_a_page_names_exist(name: str) -> None:
    reference = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    named = {one for span in spans(written()[name]) for one in re.findall(r"^diag_[a-z_]+$", span)}
    assert not [one for one in named if f"`{one}`" not in reference]


@pytest.mark.parametrize("name", written())
def test_files_that_a_page_names_exist(name: str) -> None:
    text = written()[name]
    programs = ("diag", "python", "helm", "docker", "kubectl")
    words = [word for program in programs for command in commands(text, program) for word in command]
    named = {found for word in (*words, *spans(text)) if (found := word.rstrip("/")) and _PATH.fullmatch(word)}
    made = {"deploy/compose/credentials"}
    invented = {path for path in named if "/my_" in path}  # what a recipe adds
    assert not [path for path in named - made - invented if not list(ROOT.glob(path))]


@pytest.mark.parametrize("name", written())
def test_modules_that_a_page_runs_exist(name: str) -> None:
    run = {words[2] for words in commands(written()[name], "python") if words[1:2] == ["-m"]}
    assert not [one for one in run if importlib.util.find_spec(one) is None]
