"""A door that is open: the real server over real sockets, before a service whose board is filled by hand."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from diagnostics.service.attention import Attention
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.server import WebServer
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.state import Evaluation, TargetState
from diagnostics.settings.load import load
from diagnostics.store.history import History
from tests.builders import SERVER
from tests.store.lived import NAME, deployment, live, opened, rounds

USER, PASSWORD = "alice", "correct horse"
# bcrypt's lowest cost: tests compare many.
HASHED = "$2b$04$ihWeA5AXMEruNKI5qo8U2OsxiakjzdEIXuXZ8ZeY7pALqmXwRlkI6"


@dataclass
class Door:
    """Where it is, and what is behind it."""

    server: WebServer
    service: Service
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.server.port}"

    def ask(
        self, path: str, method: str = "GET", *, body: bytes | None = None, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        """Return the answer; headers are named with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with urllib3.PoolManager(retries=False, timeout=10, ssl_context=self.tls) as pool:
            return pool.request(method, f"{self.url}{path}", body=body, headers=named, redirect=False)

    def waiting(self) -> bool:
        """Return whether any request waits for news."""
        return bool(self.server._app.state.live.waiting)

    def json(self, path: str, **headers: str) -> Any:
        """Return what a path that must answer says."""
        answer = self.ask(path, **headers)
        assert answer.status == 200, answer.data
        return json.loads(answer.data)


@contextmanager
def door(
    settings: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    history: History | None = None,
    metrics: OwnMetrics | None = None,
    tls: ssl.SSLContext | None = None,
    attention: Attention | None = None,
) -> Iterator[Door]:
    """Open a door at a free port, with settings by dotted name."""
    chosen = load(file, {}, {"web.listen_address": "127.0.0.1:0", **(settings or {})}).settings
    service = Service(chosen, metrics=metrics or OwnMetrics())
    reader = history.reader if history else None
    told = attention or Attention()
    context = WebContext(service=service, history=reader, settings=chosen, metrics=service.metrics, attention=told)
    server = WebServer(context)
    server.start()
    try:
        yield Door(server, service, tls)
    finally:
        server.stop()


def basic(user: str = USER, password: str = PASSWORD) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that vouches for itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*new, "-keyout", key, "-out", cert, "-days", "2", *subject], check=True, capture_output=True)
    return cert, key


def lived(directory: Path, count: int = 12) -> tuple[History, list[Evaluation]]:
    """Return a history of so many rounds up to now, and their verdicts."""
    history = opened(directory)
    history.start()
    begin = time.time() - count * 15.0
    verdicts = list(live(history, deployment(OwnMetrics()), rounds(count, begin=begin)))
    history.stop()
    return opened(directory), verdicts


def judged(count: int = 4) -> list[Evaluation]:
    """Return the verdicts on so many rounds up to now, which nobody remembers."""
    watched, verdicts = deployment(OwnMetrics()), []
    for scrapes in rounds(count, begin=time.time() - count * 15.0):
        for scrape in scrapes:
            watched.give(scrape)
        watched.take_in()
        verdicts.append(watched.evaluate())
    return verdicts


def show(service: Service, verdicts: list[Evaluation]) -> None:
    """Put the last verdict, and the incidents that lasted then, on the board."""
    last = {change.incident.id: change.incident for one in verdicts for change in one.changes}
    service.board.publish_target(
        TargetState(server=SERVER, url=f"http://{SERVER}:8000", deployment=NAME, up=True, interval=15.0)
    )
    service.board.publish_evaluation(verdicts[-1], tuple(one for one in last.values() if one.open))
