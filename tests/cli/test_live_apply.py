"""`diag apply --canary` on a real Triton under load: a right change stays, a wrong one and a dying server do not."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from diagnostics.cli.main import main
from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from tests.soak.running import under_load

LOAD = replace(load_fault("single-instance").load, rate=27.0, duration=600.0)
pytestmark = [pytest.mark.live, pytest.mark.alone]

# The stage is four fifths busy: nearer to saturation, such windows leave the mean too uncertain for a verdict.
TIMES = ("--window", "16s", "--settle", "6s", "--longest", "90s")
# With two instances there is hardly a queue, and what has no verdict needs only the cause.
SHORT_TIMES = ("--window", "12s", "--settle", "6s", "--longest", "30s")


@pytest.fixture
def server() -> Iterator[TritonLauncher]:
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    with TritonLauncher(environment, load_fault("single-instance"), stop_timeout=0.0) as running:
        yield running


def count(server: TritonLauncher, model: str = "safety") -> int:
    with urllib.request.urlopen(f"{server.http_url}/v2/models/{model}/config", timeout=10) as answer:
        return sum(group["count"] for group in json.load(answer)["instance_group"])


def apply(server: TritonLauncher, *arguments: str, times: tuple[str, ...] = TIMES) -> int:
    return main(["apply", "--canary", server.http_url, *times, "--yes", *arguments])


def test_a_change_that_helps_stays_and_one_that_does_not_is_taken_back(
    server: TritonLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    written = (server.repository / "safety/config.pbtxt").read_bytes()
    with under_load(server.http_url, LOAD):
        code, written_out = apply(server), capsys.readouterr()
        assert code == 0, written_out.out + written_out.err
        assert "\nkept: " in written_out.out
        assert count(server) == 2

        # It was predicted to be worse, and was: a prediction that comes true is no reason to keep it.
        assert apply(server, "--set", "safety.instance_group.count=1", times=SHORT_TIMES) == 1
        assert "\ntaken back: " in capsys.readouterr().out
        assert count(server) == 2
    assert (server.repository / "safety/config.pbtxt").read_bytes() == written


def test_a_server_that_dies_meanwhile_is_reported(server: TritonLauncher, capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()

    def die_once_changed() -> None:
        while not over.wait(0.5):
            if count(server) == 2:
                os.kill(server.pid, signal.SIGKILL)
                return

    with under_load(server.http_url, LOAD):
        dying = threading.Thread(target=die_once_changed)
        dying.start()
        code = apply(server, times=SHORT_TIMES)
        over.set()
        dying.join()
    written = capsys.readouterr()
    assert code == 3
    assert "\nnot taken back: " in written.out
    assert "a restart goes back to the repository" in written.out
    assert "could not take it back from safety" in written.err
