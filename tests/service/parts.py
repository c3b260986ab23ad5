"""Stand-ins for sources and settings files, and waiting for what a service does in its own time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from diagnostics.errors import CollectError
from diagnostics.service.jobs import Job
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.wire.records import BodyKind, Scrape

PAGE = b'nv_inference_request_success{model="m",version="1"} 1\n'


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)


def count(metrics: OwnMetrics, name: str, **labels: str) -> float:
    """Return the value of one of the service's own metrics; 0 where there is none."""
    return metrics.registry.get_sample_value(name, labels) or 0.0


def scrape(server: str = "t", body: bytes | None = PAGE) -> Scrape:
    now = time.monotonic()
    error = None if body else "connection refused"
    return Scrape(server=server, kind=BodyKind.METRICS, at=time.time(), mono=now, body=body, error=error)


@dataclass
class FakeReader:
    """A source that answers at once, fails while `broken`, or hangs until `gate` is set."""

    name: str = "t"
    broken: bool = False
    gate: threading.Event | None = None
    raises: Exception | None = None
    begun: list[float] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def round(self) -> Sequence[Scrape]:
        self.begun.append(time.monotonic())
        if self.gate is not None:
            self.gate.wait(10)
        if self.raises is not None:
            raise self.raises
        if self.broken:
            raise CollectError("no Triton found", where=self.name)
        return [scrape(self.name)]

    def close(self) -> None:
        self.closed.set()


def job(reader: FakeReader, interval: float = 0.05, deployment: str = "d") -> Job:
    return Job(key=reader.name, deployment=deployment, interval=interval, reader=reader)
