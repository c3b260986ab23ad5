"""A real Prometheus on the loopback, with the shipped rules whose windows are made short."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
import yaml

from tests.collect.fake_triton import free_ports
from tests.service.notifications.alertmanagers import ROOT, program
from tests.soak.running import until

# Windows of rules and the time that an alert holds: minutes in production, seconds here.
WINDOW, HOLD = "15s", "2s"
_WINDOWS = re.compile(r"\[\d+[smhd]\]")


@dataclass
class Prometheus:
    """One that runs."""

    url: str

    def ask(self, path: str, **fields: str) -> Any:
        """Return `data` of an answer of its API."""
        with urllib3.PoolManager(retries=False, timeout=10) as pool:
            answer = pool.request("GET", f"{self.url}/api/v1/{path}", fields=fields)
        body = json.loads(answer.data)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        found: list[dict[str, Any]] = self.ask("query", query=expr)["result"]
        return found

    def value(self, expr: str) -> float | None:
        """Return the value of a query that has one series, None for none."""
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Return the labels of firing alerts by their name."""
        found: dict[str, list[dict[str, str]]] = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def ready(self) -> bool:
        try:
            with urllib3.PoolManager(retries=False, timeout=2) as pool:
                return pool.request("GET", f"{self.url}/-/ready").status == 200
        except urllib3.exceptions.HTTPError:
            return False


def job(name: str, url: str, instance: str | None = None) -> dict[str, Any]:
    """Return a scrape configuration of one page; `instance` replaces its address as the label."""
    parts = urlsplit(url)
    labels = {"labels": {"instance": instance}} if instance else {}
    return {
        "job_name": name,
        "metrics_path": parts.path or "/metrics",
        "static_configs": [{"targets": [parts.netloc], **labels}],
    }


def shortened(file: Path) -> dict[str, Any]:
    """Return the groups of a file of rules with short windows."""
    text = _WINDOWS.sub(f"[{WINDOW}]", file.read_text())
    groups: dict[str, Any] = yaml.safe_load(text)
    for group in groups["groups"]:
        group.pop("interval", None)
        for rule in group["rules"]:
            for held in {"for", "keep_firing_for"} & rule.keys():
                rule[held] = HOLD
    return groups


@contextlib.contextmanager
def prometheus(
    folder: Path, jobs: Sequence[Mapping[str, Any]], alertmanager: str, rules: Sequence[Path]
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes once a second."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(rules):
        (folder / f"rules-{number}.json").write_text(json.dumps(shortened(file)))
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{folder}/rules-*.json"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [urlsplit(alertmanager).netloc]}]}]},
        "scrape_configs": list(jobs),
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    address = f"127.0.0.1:{free_ports(1)}"
    command = [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log, cwd=ROOT)
    one = Prometheus(f"http://{address}")
    try:
        until(lambda: _alive(running, folder) and one.ready(), 20, "Prometheus")
        yield one
    finally:
        running.terminate()
        running.wait(20)


def _alive(process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "log").read_text()
    return True
