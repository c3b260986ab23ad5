"""Measures one job on a running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import msgspec

from diagnostics.errors import CollectError
from diagnostics.wire.records import BodyKind, Scrape
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

# What CUDA reads; NVML, which samples the machine, does not.
CARDS_VARIABLE = "CUDA_VISIBLE_DEVICES"
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
    scrapes: Sequence[Scrape] = list(collect(sources, job.interval, seconds=job.seconds))
    meter.stop()
    own = [of_cards(scrape, visible_cards()) for scrape in scrapes]
    return meter, [*own, *repository_scrapes(served.repository, [target.name])]


def visible_cards() -> tuple[int, ...] | None:
    """Return which of the machine's GPUs this process and its servers see, in their order; None for all."""
    text = os.environ.get(CARDS_VARIABLE)
    return None if text is None else tuple(int(one) for one in text.split(",") if one)


def of_cards(scrape: Scrape, cards: tuple[int, ...] | None) -> Scrape:
    """Keep of a sample the cards that the server sees, under the numbers by which it knows them."""
    if cards is None or scrape.kind is not BodyKind.NVML or scrape.body is None:
        return scrape
    body = json.loads(scrape.body)
    numbered = {one.get("index"): one for one in body["gpus"]}
    body["gpus"] = [{**numbered[card], "index": at} for at, card in enumerate(cards) if card in numbered]
    return replace(scrape, body=json.dumps(body).encode())
