"""The image holds what the package is built from, and the credentials are those that the service takes."""

from __future__ import annotations

import getpass
import re
import runpy
import sys
import tomllib
from pathlib import Path

import bcrypt
import pytest

from deploy import credentials
from diagnostics.service.http.credentials import read_web_config
from exporters.sources.access import read_secret
from tests.deploy.schemas import ROOT

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COPIED = {
    source for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE) for source in line.split()
}


def test_the_image_is_built_from_all_that_the_wheel_holds() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    (readme,) = (one["path"] for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"])
    held = {*wheel["only-include"], *wheel["force-include"], *wheel["shared-data"]}
    assert held | {readme, "pyproject.toml"} <= COPIED
    assert [name for name in COPIED if not (ROOT / name).exists()] == []
    ignored = (ROOT / "deploy/Dockerfile.dockerignore").read_text("utf-8").split()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == COPIED


def test_the_image_has_extras_that_there_are_and_the_python_that_is_needed() -> None:
    (extras,) = re.findall(r"'\.\[(.+)\]'", DOCKERFILE)
    assert {"serve", "postgresql"} <= set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    (oldest,) = re.findall(r">=3\.(\d+)", PROJECT["project"]["requires-python"])
    assert {int(minor) >= int(oldest) for minor in re.findall(r"^FROM python:3\.(\d+)-slim", DOCKERFILE, re.M)} == {
        True
    }


def test_the_image_runs_as_the_user_of_the_manifests() -> None:
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.index("USER") < DOCKERFILE.index("ENTRYPOINT")


def requested(monkeypatch: pytest.MonkeyPatch, password: str, *arguments: str, again: str = "") -> int:
    monkeypatch.setattr(sys, "argv", ["credentials", *arguments])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: again if "again" in prompt and again else password)
    return credentials.main()


def test_the_service_takes_the_credentials_that_are_made(monkeypatch, capsys, tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    salt = bcrypt.gensalt(4)  # the lowest cost
    monkeypatch.setattr(bcrypt, "gensalt", lambda: salt)
    assert requested(monkeypatch, "correct horse", str(folder), "--user", "alice") == 0
    users = read_web_config(folder / "web.yml").users
    assert bcrypt.checkpw(b"correct horse", users["alice"])
    assert len(read_secret(folder / "token", "token")) == 64
    assert capsys.readouterr().out == f"{folder}: wrote token, web.yml, grafana; the page's user is alice\n"
    assert folder.stat().st_mode & 0o077 == 0
    assert "correct horse" not in "".join(file.read_text() for file in folder.iterdir())


@pytest.mark.parametrize(
    ("password", "arguments", "reported"),
    [
        ("short", ["new"], "the password has 5 bytes; use 8 to 72"),
        ("é" * 40, ["new"], "the password has 80 bytes; use 8 to 72"),
        ("long enough", ["new", "--user", "a:b"], "--user: 'a:b' is no plain name; use letters and digits"),
        ("long enough", ["."], ".: is there already; name a new folder, or remove it"),
    ],
)
def test_what_cannot_be_used_is_reported_in_one_line(
    monkeypatch, capsys, tmp_path: Path, password: str, arguments: list[str], reported: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert requested(monkeypatch, password, *arguments) == 2
    assert capsys.readouterr().err == f"error: {reported}\n"
    assert not (tmp_path / "new").exists()


def test_two_passwords_are_refused_and_nobody_is_requested_without_a_terminal(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    folder, file = tmp_path / "credentials", tmp_path / "password"
    assert requested(monkeypatch, "correct horse", str(folder), again="battery staple") == 2
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert credentials.main() == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: the passwords differ; run it again",
        "error: there is no terminal to ask for the password; give it with --password-file",
    ]
    file.write_text("correct horse\n")
    monkeypatch.setattr(bcrypt, "hashpw", lambda password, _: password)
    assert requested(monkeypatch, "", str(folder), "--password-file", str(file)) == 0
    assert "'correct horse'" in (folder / "web.yml").read_text()


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("dashboards", "grafanalib", "dashboards"),
        ("deploy", "helm_python", "test"),
        ("deploy.credentials", "bcrypt", "serve"),
    ],
)
def test_a_package_that_is_missing_is_reported_with_the_extra_that_has_it(
    monkeypatch, module: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in (package, "dashboards", "deploy")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=rf"error: python -m {module}: {package}.* is not installed; .*\[{extra}\]"):
        runpy.run_module(module, run_name="__main__")
