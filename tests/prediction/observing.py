"""Measures one job on a running server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from diagnostics.errors import CollectError
from diagnostics.wire.records import Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine as MachineSource
from exporters.sources.repository import repository_scrapes
from exporters.sources.schedule import Source, collect
from exporters.sources.triton import discover
from tests.prediction.disturbance import Meter
from tests.prediction.measured import Measured
from tests.prediction.plan import Job
from tests.prediction.reading import Bodies, read
from tests.prediction.sending import Order, Row
from tests.prediction.serving import Served

INTERVAL_SECONDS = 2.0
# Three times the exporter's delay: the last spans have come by then.
_SPANS_SECONDS = 1.5


def observe(served: Served, job: Job) -> tuple[Measured, list[Scrape]]:
    """Put the job's load on a server and return what was measured, and all scrapes, with the traces.

    Raises:
        CollectError: the server ended, or refuses the deployment.

    """
    served.become(job.deployment)
    served.spans.take()
    with ExitStack() as stack:
        client = stack.enter_context(_client(served, job))
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(msgspec.json.encode(_order(served, job)))
        client.stdin.close()
        started = float(client.stdout.readline())
        meter, scrapes = _scrape(served, job, started, stack)
        rows: list[Row] = json.loads(client.stdout.read() or b"[]")
    served.launcher.check()
    time.sleep(_SPANS_SECONDS)
    if not rows:
        raise CollectError("the client sent nothing", where=job.name)
    traces = served.spans.take()
    seen = [row for row in rows if job.settle <= row[0] < job.settle + job.seconds]
    machine = meter.read([late for _, late, _, _ in seen])
    measured = read(job, Bodies(started=started, scrapes=scrapes, traces=traces, rows=rows), machine)
    return measured, [*scrapes, *traces]


def _client(served: Served, job: Job) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.prediction.sending"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _order(served: Served, job: Job) -> Order:
    return Order(
        url=served.infer_url,
        width=job.deployment.width,
        seconds=job.load_seconds,
        arrivals=job.arrivals,
        clients=job.load.clients,
    )


def _scrape(served: Served, job: Job, started: float, stack: ExitStack) -> tuple[Meter, list[Scrape]]:
    target = discover(served.launcher.http_url, SourceOptions())
    stack.callback(target.close)
    machine = MachineSource([target])
    stack.callback(machine.close)
    sources: list[Source] = [target, *([machine] if machine.local else [])]
    time.sleep(max(0.0, started + job.settle - time.time()))
    meter = Meter()
    scrapes: Sequence[Scrape] = list(collect(sources, INTERVAL_SECONDS, seconds=job.seconds))
    meter.stop()
    return meter, [*scrapes, *repository_scrapes(served.repository, [target.name])]
