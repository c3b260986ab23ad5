"""A real Prometheus scrapes the door, with the alerts of `rules/` over what it finds there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3

from tests.builders import SERVER
from tests.service.http.door import HASHED, PASSWORD, USER, Door, basic, door, judged, show
from tests.service.parts import until
from tests.store.lived import NAME

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def program() -> str:
    unpacked = ROOT / ".tools/usr/bin/prometheus"
    found = str(unpacked) if unpacked.exists() else shutil.which("prometheus")
    if found is None:
        reported = "there is no prometheus; unpack one with: make tools"
        pytest.fail(reported) if os.environ.get("CI") == "true" else pytest.skip(reported)
    return found


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    users = tmp_path_factory.mktemp("web") / "web.yml"
    users.write_text(f"basic_auth_users:\n  {USER}: {HASHED}\n")
    with door({"web.config_file": str(users)}) as one:
        show(one.service, judged())
        until(lambda: b"diag_finding{" in one.ask("/metrics", Authorization=basic()).data)
        yield one


@pytest.fixture(scope="module")
def prometheus(program: str, opened: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    target = opened.url.removeprefix("http://")
    job = {
        "scrape_interval": "200ms",
        "scrape_timeout": "200ms",
        "basic_auth": {"username": USER, "password": PASSWORD},
        "static_configs": [{"targets": [target]}],
    }
    probe = {**job, "metrics_path": "/probe", "params": {"target": [SERVER]}}
    rules = [str(path) for path in sorted((ROOT / "rules/alerts").glob("*.yaml"))]
    config = {
        "global": {"evaluation_interval": "200ms"},
        "rule_files": rules,
        "scrape_configs": [{"job_name": "diag", **job}, {"job_name": "probe", **probe}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        until(lambda: ready(address), 20)
        yield address
    finally:
        running.terminate()
        running.wait(20)


def ready(address: str) -> bool:
    try:
        return urllib3.request("GET", f"http://{address}/-/ready", retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def requested(address: str, path: str) -> Any:
    return urllib3.request("GET", f"http://{address}/api/v1/{path}", retries=False).json()["data"]


def test_prometheus_scrapes_page_and_probe_without_an_error(prometheus: str) -> None:
    until(lambda: [one["health"] for one in targets(prometheus)] == ["up", "up"], 20)
    assert [one["lastError"] for one in targets(prometheus)] == ["", ""]


def test_an_alert_of_the_rules_selects_what_was_found(prometheus: str) -> None:
    expression = quote('diag_finding{check="request-failures"} == 1')
    until(lambda: requested(prometheus, f"query?query={expression}")["result"], 20)
    labels = requested(prometheus, f"query?query={expression}")["result"][0]["metric"]
    assert (labels["server"], labels["model"], labels["version"], labels["deployment"]) == (SERVER, "slow", "1", NAME)
    until(lambda: pending(prometheus), 20)
    assert {one["labels"]["server"] for one in pending(prometheus)} == {SERVER}


def targets(address: str) -> list[Any]:
    return list(requested(address, "targets")["activeTargets"])


def pending(address: str) -> list[Any]:
    alerts = requested(address, "alerts")["alerts"]
    return [one for one in alerts if one["labels"]["alertname"] == "TritonDiagRequestFailures"]
