"""Real Alertmanagers on the loopback, with the shipped configuration, and the address that they notify."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.finding_alerts import alertmanager_config
from tests.service.parts import until

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]
Key = tuple[str, str, str]


def program(name: str, *others: str) -> str:
    """Return a program of Debian's package; in CI its absence is a failure."""
    unpacked = ROOT / ".tools/usr/bin" / name
    found = str(unpacked) if unpacked.exists() else next(filter(None, map(shutil.which, (name, *others))), None)
    if found is None:
        reported = f"there is no {name}; unpack one with: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(reported)
        pytest.skip(reported)
    return found


def key_of(labels: dict[str, str]) -> Key:
    return labels.get("check") or labels["alertname"], labels.get("model", ""), labels.get("sender", "")


# Debian's Alertmanager reads its templates from here, wherever its package was unpacked.
SHARED = Path("/usr/share/prometheus/alertmanager")


@cache
def alertmanager() -> tuple[str, Path]:
    """Return an Alertmanager that runs, and the folder that it runs in.

    Of a package that was unpacked elsewhere this is a copy in which the folder's path is one, as long, that leads to
    the folder it runs in.
    """
    found = program("prometheus-alertmanager", "alertmanager")
    shared = Path(found).parents[1] / "share/prometheus/alertmanager"
    if SHARED.exists() or not shared.exists():
        return found, Path.cwd()
    here = b"./" * (len(str(SHARED)) // 2)
    copy = Path(tempfile.mkdtemp(prefix="diag-alertmanager-")) / "alertmanager"
    atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
    copy.write_bytes(Path(found).read_bytes().replace(bytes(SHARED), here))
    copy.chmod(0o755)
    return str(copy), shared


@dataclass
class Pager:
    """What Alertmanager's receiver was told, one notification after another."""

    port: int = 0
    notifications: list[Json] = field(default_factory=list)

    def reported(self, status: str) -> set[Key]:
        """Return check, model and sender of the alerts of all notifications with this status."""
        return {
            key_of(alert["labels"])
            for notification in list(self.notifications)
            for alert in notification["alerts"]
            if alert["status"] == status
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Pager]:
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                pager.notifications.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


@dataclass
class Alertmanager:
    """One Alertmanager that can be stopped and come back at the same place."""

    folder: Path
    port: int
    pager: Pager
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "alertmanager.yaml"
        path.write_text(yaml.safe_dump(self._config()))
        executable, place = alertmanager()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    executable,
                    f"--config.file={path}",
                    f"--storage.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--cluster.listen-address=",
                ],
                cwd=place,
                stdout=log,
                stderr=log,
            )
        until(self._ready, 20.0)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    def held(self) -> list[Json]:
        """Return what it holds and has not ended."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=5) as answer:
            found: list[Json] = json.load(answer)
        return found

    def alerts(self) -> dict[Key, Json]:
        """Return what it holds and has not ended, by check, model and sender."""
        found = self.held()
        keyed = {key_of(one["labels"]): one for one in found}
        assert len(keyed) == len(found), "an alert is there twice"
        return keyed

    def post(self, *alerts: Json) -> None:
        """Post alerts as Prometheus does."""
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts", json.dumps(alerts).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=5).close()

    def _config(self) -> Json:
        """Return the shipped configuration, with a real receiver and without its patience."""
        config: Json = json.loads(json.dumps(alertmanager_config(catalogue())))
        config["route"] |= {"group_wait": "200ms", "group_interval": "300ms"}
        for receiver in config["receivers"]:
            receiver["webhook_configs"] = [{"url": f"http://127.0.0.1:{self.pager.port}/", "send_resolved": True}]
        return config

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
            return True
        return False
