"""A server that is kept: what is shown to try, and how it ends. No server is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.cli import demonstration
from diagnostics.cli.demonstration import KeptDemonstration
from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.faults import load_fault
from diagnostics.errors import CollectError


class Server:
    """Stands for the launcher: ready at once."""

    http_url, repository = "http://127.0.0.1:1", Path("repository")

    def __init__(self, *_: object, **__: object) -> None:
        self.left = False

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def check(self) -> None:
        raise CollectError("the server died", where="demo", hint="see its log")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    started = Server()
    monkeypatch.setattr(demonstration, "TritonLauncher", lambda *_, **__: started)
    return started


def environment() -> TritonEnvironment:
    nowhere = Path("nowhere")
    return TritonEnvironment(
        location=nowhere, python=nowhere, python_version="3.11", site_packages=nowhere, libpython=nowhere
    )


def kept(shown: list[str]) -> KeptDemonstration:
    return KeptDemonstration(
        environment=environment(),
        fault=load_fault("single-instance"),
        seconds=7.0,
        say=shown.append,
        show=shown.append,
        progress=lambda *_: None,
    )


def test_an_interrupt_ends_it_as_wanted_and_leaves_no_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[float] = []

    def interrupted(url: str, profile: object, **_: object) -> None:
        loads.append(profile.duration)
        raise KeyboardInterrupt

    monkeypatch.setattr(demonstration, "run_load", interrupted)
    shown: list[str] = []
    kept(shown).run()
    assert (server.left, loads) == (True, [7.0])
    assert "diag explain http://127.0.0.1:1 --repository repository" in shown
    assert shown[-1] == "stopped; nothing is left behind"


def test_a_server_that_died_under_its_load_is_reported(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "run_load", lambda *_, **__: [])
    with pytest.raises(CollectError, match="the server died"):
        kept([]).run()
    assert server.left
