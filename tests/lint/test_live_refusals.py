"""What rules say of models that do not load, against a real Triton."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.demo.environment import find_environment
from diagnostics.demo.server import TritonLauncher
from diagnostics.errors import CollectError
from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import RuleCase
from diagnostics.lint.run import lint

pytestmark = pytest.mark.live
# What a stage needs besides its configuration to be loaded.
_MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
# Of other backends, a refusal would tell that they are not installed.
_LOADABLE = ('backend: "python"', "ensemble")
_OF_VERSIONS = catalogue()["no-version-served"].cases
_WHOLE = RuleCase(title="is whole", files={"models/whole/config.pbtxt": 'backend: "python"\nmax_batch_size: 4\n'})


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TritonLauncher, Path]]:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    repository = tmp_path_factory.mktemp("lint") / "models"
    repository.mkdir()
    with TritonLauncher(environment, repository, stop_timeout=0.0) as server:
        yield server, repository


def test_what_is_stated_not_to_load_is_refused_by_the_server(triton: tuple[TritonLauncher, Path]) -> None:
    server, repository = triton
    stated = {
        f"{rule.id}: {case.title}": (case, {Path(one.place.path).parts[-2] for one in _errors(rule, case, repository)})
        for rule in catalogue().values()
        for case in rule.cases
    }
    reported = {title: (case, names) for title, (case, names) in stated.items() if names}
    taken = {title: _taken(server, case, names, repository) for title, (case, names) in reported.items()}

    assert {title: names for title, names in taken.items() if names} == {}
    assert len({title.partition(":")[0] for title in reported}) > 10
    assert _taken(server, _WHOLE, {"whole"}, repository) == {"whole"}


def _errors(rule: RegisteredRule, case: RuleCase, repository: Path) -> list[LintProblem]:
    """Return what the rule says does not load, of the backends that are there."""
    if rule.rule.severity is not LintSeverity.ERROR or not any(str(path).startswith("models/") for path in case.files):
        return []
    _write(case, repository)
    found = lint([repository], rules={rule.id: rule}).problems
    return [one for one in found if "not load" in one.message and _is_loadable(repository.parent / one.place.path)]


def _is_loadable(path: Path) -> bool:
    return path.name == "config.pbtxt" and any(word in path.read_text("utf-8", "replace") for word in _LOADABLE)


def _write(case: RuleCase, repository: Path) -> None:
    shutil.rmtree(repository)
    repository.mkdir()
    case.write(repository.parent)


def _taken(server: TritonLauncher, case: RuleCase, names: set[str], repository: Path) -> set[str]:
    """Return which of the models the server loads."""
    _write(case, repository)
    for config in repository.glob("*/config.pbtxt"):
        # Where a policy says which versions are served, there being none may be the very point.
        if "version_policy" not in config.read_text("utf-8", "replace") and case not in _OF_VERSIONS:
            version = config.parent / "1"
            version.mkdir(exist_ok=True)
            (version / "model.py").write_text(_MODEL)
    return {name for name in names if _loads(server, name)}


def _loads(server: TritonLauncher, name: str) -> bool:
    try:
        server.load_model(name)
    except CollectError:
        return False
    return True
