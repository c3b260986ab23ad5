"""The wheel alone, in an environment with nothing else, does what a plain user needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics import __version__
from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import VERBS
from tests.repository.source import ROOT

CAPTURE = ROOT / "fixtures/captures/cpu-handed-single-instance.tar.xz"
Diag = Callable[..., subprocess.CompletedProcess[str]]


def _done(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # What the environment says of Python must not reach into the empty one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DIAG_"))}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    done = _done(*command, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder / "venv", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "--disable-pip-version-check"]
    done = _done(*pip, "install", "--quiet", wheel, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "venv/bin"


@pytest.fixture
def diag(installed: Path, tmp_path: Path) -> Diag:
    """Run the installed `diag` from a folder that has nothing to do with the repository."""
    return lambda *arguments: _done(installed / "diag", *arguments, folder=tmp_path)


def test_it_holds_the_product_and_nothing_else_at_its_top(content: set[str]) -> None:
    tops = {name.split("/")[0] for name in content}
    own = f"triton_diagnostics-{__version__}"
    assert tops == {"diagnostics", "exporters", "triton_diagnostics.py", f"{own}.dist-info", f"{own}.data"}
    assert not [name for name in content if "__pycache__" in name or name.endswith(".pyc")]


def test_it_holds_every_file_of_the_product(content: set[str]) -> None:
    folders = [ROOT / name for name in ("diagnostics", "exporters")]
    files = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert {"diagnostics/py.typed", "diagnostics/render/tuning.schema.json"} <= files
    assert {name for name in files if "__pycache__" not in name} <= content


def test_it_holds_its_licence(content: set[str]) -> None:
    assert f"triton_diagnostics-{__version__}.dist-info/licenses/LICENSE" in content


def test_the_reference_deployment_travelled_whole(content: set[str]) -> None:
    source = ROOT / "fixtures/reference"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    assert files
    assert {f"diagnostics/demo/reference/{name}" for name in files} <= content


def test_it_brings_the_libraries_it_names_and_no_more(installed: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", installed / "python"]
    listed = _done(*pip, "list", "--format=freeze", folder=tmp_path).stdout
    names = {line.partition("==")[0].partition(" @")[0].lower().replace("_", "-") for line in listed.splitlines()}
    assert names - {"pip", "setuptools", "wheel"} == {
        *("triton-diagnostics", "click", "urllib3"),
        *("msgspec", "opentelemetry-proto", "protobuf"),  # traces
        *("jinja2", "markupsafe"),  # pages
    }


def test_the_installed_program_starts(diag: Diag) -> None:
    assert diag("--version").stdout == f"diag {__version__}\n"
    reported = diag("--help")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert "explain" in reported.stdout


def test_manual_pages_and_completions_are_where_shells_look(installed: Path) -> None:
    share = installed.parent / "share"
    pages = {path.name for path in (share / "man/man1").iterdir()}
    assert pages >= {"diag.1", *(f"diag-{verb}.1" for verb in VERBS)}
    assert (share / "bash-completion/completions/diag").is_file()
    assert (share / "zsh/site-functions/_diag").is_file()
    assert (share / "fish/vendor_completions.d/diag.fish").is_file()


def test_its_description_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"triton_diagnostics-{__version__}.dist-info/METADATA").decode()
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "diag explain" in text


@pytest.mark.parametrize("package", ["diagnostics", "exporters"])
def test_another_distribution_in_place_of_ours_is_named(package: str, installed: Path, tmp_path: Path) -> None:
    taken = tmp_path / "elsewhere" / package
    taken.mkdir(parents=True)
    (taken / "__init__.py").write_text("")
    shadowed = f"import sys; sys.path.insert(0, {str(taken.parent)!r})"
    code = f"{shadowed}; import triton_diagnostics as ours; sys.exit(ours.main())"
    reported = _done(installed / "python", "-c", code, folder=tmp_path)
    assert reported.returncode == 3
    assert reported.stderr.startswith(f"diag: the package {package} is another one, at {taken}: ")
    assert len(reported.stderr.splitlines()) == 1


def test_every_verb_has_its_help_without_the_extras(installed: Path, tmp_path: Path) -> None:
    helps = "from diagnostics.cli.main import VERBS, main; print([main([verb, '--help']) for verb in VERBS])"
    reported = _done(installed / "python", "-c", helps, folder=tmp_path)
    assert reported.stderr == ""
    assert reported.stdout.splitlines()[-1] == str([0] * len(VERBS))


def test_the_installed_program_lists_every_check(diag: Diag) -> None:
    reported = diag("checks")
    assert reported.returncode == 0
    assert all(identifier in reported.stdout for identifier in catalogue())


def test_the_installed_program_explains_a_capture(diag: Diag, tmp_path: Path) -> None:
    shutil.copy(CAPTURE, tmp_path / "slow.tar.xz")
    reported = diag("explain", "slow.tar.xz")
    assert reported.returncode == 0, reported.stderr
    assert "single-instance-serialization" in reported.stdout


def test_the_installed_program_makes_a_page(diag: Diag, tmp_path: Path) -> None:
    shutil.copy(CAPTURE, tmp_path / "slow.tar.xz")
    reported = diag("explain", "slow.tar.xz", "--output", "html")
    assert reported.returncode == 0, reported.stderr
    assert reported.stdout.startswith("<!doctype html>")


def test_the_installed_program_writes_the_committed_rules(diag: Diag, tmp_path: Path) -> None:
    reported = diag("gen", "--output", "rules")
    assert reported.returncode == 0, reported.stderr
    written = {path.relative_to(tmp_path): path.read_text() for path in (tmp_path / "rules").rglob("*.*")}
    assert written == {path.relative_to(ROOT): path.read_text() for path in (ROOT / "rules").rglob("*.*")}


def test_the_installed_program_finds_the_reference_deployment(installed: Path, tmp_path: Path) -> None:
    code = "from diagnostics.demo.environment import reference_root; print(reference_root())"
    reported = _done(installed / "python", "-c", code, folder=tmp_path)
    assert reported.stdout.strip().endswith("site-packages/diagnostics/demo/reference"), reported.stderr
