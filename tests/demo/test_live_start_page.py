"""The how-to page that starts a Triton on one's own repository: its commands, as a reader runs them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from click.testing import CliRunner

from diagnostics.cli.main import diag
from diagnostics.demo.environment import LOCATION_VARIABLE, WHEEL_VERSION, find_environment
from diagnostics.demo.server import HOST, Ports
from tests.repository.pages import blocks, written
from tests.service.parts import until

PAGE = written()["docs/how-to/start-triton.md"]
# A server that is to end waits half a minute for connections that clients keep open.
CLIENT = urllib3.PoolManager(headers={"Connection": "close"})


def test_the_page_installs_the_version_that_the_demonstration_uses() -> None:
    assert f"nvidia-pytriton=={WHEEL_VERSION}\n" in PAGE


@pytest.fixture
def started(tmp_path: Path) -> Iterator[str]:
    """Start a server as the page says on the page's model; yield its HTTP address."""
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    model = tmp_path / "models/standin"
    (model / "1").mkdir(parents=True)
    (model / "1/model.py").write_text(blocks(PAGE, "python")[0])
    (model / "config.pbtxt").write_text(blocks(PAGE, "text")[0])
    ports = Ports.free()
    places = f"--http-port={ports.http} --grpc-port={ports.grpc} --metrics-port={ports.metrics}"
    (script,) = (one for one in blocks(PAGE, "sh") if one.startswith("T="))
    variables = {**os.environ, LOCATION_VARIABLE: str(environment.location)}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            ["/bin/sh", "-ec", f"{script.rstrip()} {places}"], cwd=tmp_path, env=variables, stdout=log, stderr=log
        )
    try:
        url = f"http://{HOST}:{ports.http}"
        until(lambda: server.poll() is not None or _is_ready(url), 60)
        assert server.poll() is None, (tmp_path / "log").read_text("utf-8", "replace")[-3000:]
        assert "Started HTTPService" in (tmp_path / "log").read_text("utf-8", "replace")
        yield url
    finally:
        server.terminate()
        server.wait(60)


def _is_ready(url: str) -> bool:
    try:
        return CLIENT.request("GET", f"{url}/v2/models/standin/ready", retries=False, timeout=2).status == 200
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.live
def test_a_server_that_is_started_as_the_page_says_serves_its_model_and_is_explained(
    started: str, tmp_path: Path
) -> None:
    repository = str(tmp_path / "models")
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            CLIENT.request("POST", f"{started}/v2/models/standin/infer", json=body)

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for one in clients:
        one.start()
    answer = CLIENT.request("POST", f"{started}/v2/models/standin/infer", json=body).json()
    linted = CliRunner().invoke(diag, ["lint", repository])
    explained = CliRunner().invoke(diag, ["explain", started, "--repository", repository, "--window", "12s"])
    ended.set()
    for one in clients:
        one.join(10)

    assert answer["outputs"][0]["data"] == [1, 2, 3, 4]
    assert "error" not in linted.output
    assert explained.stdout.startswith("degraded: standin "), explained.output
    assert "batch-size-collapse of standin" in explained.stdout
    assert "+dynamic_batching { }" in explained.stdout
