"""A real VictoriaMetrics on the loopback that scrapes some pages once a second."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import urllib3

from tests.collect.fake_triton import free_ports
from tests.service.notifications.alertmanagers import program
from tests.soak.running import until


@contextlib.contextmanager
def victoria_metrics(folder: Path, jobs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Run one and yield its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": list(jobs)}
    (folder / "scrape.yml").write_text(json.dumps(config))
    address = f"127.0.0.1:{free_ports(1)}"
    command = [
        program("victoria-metrics"),
        f"-promscrape.config={folder}/scrape.yml",
        f"-storageDataPath={folder}/data",
        f"-httpListenAddr={address}",
        # What was just scraped is wanted at once.
        "-search.latencyOffset=1s",
        "-memory.allowedBytes=128MB",
    ]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _healthy(running, folder, address), 20, "VictoriaMetrics")
        yield f"http://{address}"
    finally:
        running.terminate()
        running.wait(20)


def _healthy(running: subprocess.Popen[bytes], folder: Path, address: str) -> bool:
    assert running.poll() is None, (folder / "log").read_text()
    try:
        with urllib3.PoolManager(retries=False, timeout=2) as pool:
            return pool.request("GET", f"http://{address}/health").status == 200
    except urllib3.exceptions.HTTPError:
        return False
