"""Finding the server's environment, and what is said where it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from diagnostics.demo import environment
from diagnostics.demo.environment import default_location, ensure_environment, find_environment, reference_root
from diagnostics.errors import CollectError, UsageError


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(environment.LOCATION_VARIABLE, raising=False)
    return tmp_path


def silent(line: str) -> None:
    pass


def test_nothing_is_found_where_nothing_was_made(cache: Path) -> None:
    assert find_environment() is None


def test_the_default_place_is_in_the_cache_and_names_the_wheels_version(cache: Path) -> None:
    assert default_location() == cache / "triton-diagnostics" / f"triton-{environment.WHEEL_VERSION}"


def test_a_folder_that_is_no_environment_is_refused_with_what_to_do(cache: Path) -> None:
    with pytest.raises(UsageError, match="is not a Python environment; remove it"):
        find_environment(cache)


def test_the_variable_names_the_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = cache / "named"
    named.mkdir()
    monkeypatch.setenv(environment.LOCATION_VARIABLE, str(named))
    with pytest.raises(UsageError, match=str(named)):
        find_environment()


def test_an_environment_without_a_server_is_refused_with_what_is_missing(cache: Path) -> None:
    (cache / "bin").mkdir()
    (cache / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (cache / "bin" / "python").chmod(0o755)
    with pytest.raises(UsageError, match=r"no shared libpython|has no tritonserver"):
        find_environment(cache)


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")])
def test_another_platform_is_refused_in_one_line(
    cache: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr(environment.platform, "system", lambda: system)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    with pytest.raises(UsageError, match=f"runs on Linux x86-64 only, this is {system} {machine}"):
        ensure_environment(progress=silent)
    assert not list(cache.iterdir())


def test_a_python_that_the_server_cannot_use_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "PYTHONS", ("2.7",))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs a Python from"):
        environment.base_python()


def test_a_failed_making_says_why_and_leaves_nothing_that_could_be_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_require_platform", lambda *_: None)
    failing = cache / "python"
    failing.write_text("#!/bin/sh\necho 'Collecting things'\necho 'ERROR: no route to the index'\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(environment, "base_python", lambda: failing)
    stated: list[str] = []
    with pytest.raises(CollectError, match=r"cannot be made: ERROR: no route to the index; check the network"):
        ensure_environment(progress=stated.append)
    assert stated[-1] == "Collecting things"
    assert not list((cache / "triton-diagnostics").iterdir())
    assert find_environment() is None


def test_the_reference_deployment_is_found_from_a_checkout_or_a_wheel() -> None:
    assert (reference_root() / "model_repository" / "ensemble" / "config.pbtxt").is_file()
