"""One Triton on the loopback whose counters move on with time, with a fault that never ends."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from diagnostics.wire.records import BodyKind
from tests.builders import SyntheticTriton
from tests.collect.fake_triton import Answer, FakeServer, free_ports, page
from tests.store.lived import FAST, QUEUED

MODELS = (FAST, QUEUED)
# Traffic of so many seconds passes in each second: there is enough of it to judge by at once.
SPEED, STEP = 15.0, 0.5


class MovingTriton:
    """Serves prepared reads, one after another; the last one stays.

    Attributes:
        url: of its HTTP port.
        rounds: Unix seconds at which its statistics were read: once a round.

    """

    def __init__(self, seconds: float) -> None:
        found: dict[float, dict[BodyKind, bytes]] = {}
        for scrape in SyntheticTriton(models=MODELS, interval=SPEED * STEP).scrapes(round(seconds / STEP)):
            found.setdefault(scrape.mono, {})[scrape.kind] = scrape.body or b""
        self._reads, self._begun = list(found.values()), time.monotonic()
        self.rounds: list[float] = []
        port = free_ports()
        self.url = f"http://127.0.0.1:{port}"
        self.api = FakeServer(self._api(), port)
        self.metrics = FakeServer({"GET /metrics": self._metrics}, port + 2)

    @contextlib.contextmanager
    def running(self) -> Iterator[MovingTriton]:
        with self.api.running(), self.metrics.running():
            yield self

    def _now(self, kind: BodyKind) -> bytes:
        return self._reads[min(int((time.monotonic() - self._begun) / STEP), len(self._reads) - 1)][kind]

    def _metrics(self, handler: BaseHTTPRequestHandler) -> None:
        page(self._now(BodyKind.METRICS))(handler)

    def _statistics(self, handler: BaseHTTPRequestHandler) -> None:
        self.rounds.append(time.time())
        page(self._now(BodyKind.STATISTICS), "application/json")(handler)

    def _api(self) -> dict[str, Answer]:
        fixed: dict[str, object] = {f"GET /v2/models/{one.name}/config": one.config for one in MODELS}
        fixed["GET /v2"] = {"name": "triton", "version": "2.50.0", "extensions": []}
        fixed["POST /v2/repository/index"] = [{"name": one.name, "version": "1", "state": "READY"} for one in MODELS]
        routes = {path: page(json.dumps(body).encode(), "application/json") for path, body in fixed.items()}
        return {**routes, "GET /v2/models/stats": self._statistics}
