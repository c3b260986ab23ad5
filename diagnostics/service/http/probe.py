"""`/probe?target=…`: one server's metrics on demand, as Prometheus' multi-target exporters have them.

A server that is watched is answered from its window, and costs it nothing; one in an allowed network is read for as
long as the scrape may take. No redirect is followed and no credential is sent.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Response
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from diagnostics.render.clean import clean
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.metrics import format_of, rendered
from diagnostics.service.http.parameters import ONLY_KNOWN
from diagnostics.service.http.probing import Probed, pinned, probe, watched
from exporters.sinks.exposition import joined, rows_of, rows_of_targets, server_of

log = logging.getLogger(__name__)
MODULES = ("explain",)
MOST_AT_ONCE = 4
# Of Prometheus' own deadline, what sending and parsing may take; and what is taken for a deadline where none is told.
_MARGIN = 0.5
_DEADLINE, _LONGEST = 10.0, 60.0


def router(probes: Probes) -> APIRouter:
    """Return `/probe`."""
    routes = APIRouter(include_in_schema=False, dependencies=ONLY_KNOWN)

    @routes.get("/probe")
    async def one(
        target: Annotated[str, Query(min_length=1, max_length=500)],
        module: Annotated[str, Query(max_length=50)] = MODULES[0],
        accept: Annotated[str, Header()] = "",
        x_prometheus_scrape_timeout_seconds: Annotated[str, Header()] = "",
    ) -> Response:
        if module not in MODULES:
            raise HTTPException(400, f"there is no module {module!r}; there is {', '.join(MODULES)}")
        probed = await probes.of(target, seconds_left(x_prometheus_scrape_timeout_seconds))
        if probed.error:
            log.info("%s could not be probed: %s", clean(target), probed.error)
        media_type = format_of(accept)
        page = await asyncio.to_thread(rendered, partial(_metrics, target, probed), media_type)
        return Response(page, headers={"Content-Type": media_type})

    return routes


def seconds_left(header: str) -> float:
    """Return how long a probe may take, of the header in which Prometheus tells its deadline."""
    try:
        deadline = float(header)
    except ValueError:
        deadline = _DEADLINE
    deadline = deadline if math.isfinite(deadline) and deadline > 0 else _DEADLINE
    return max(min(deadline, _LONGEST) - _MARGIN, _MARGIN)


class Probes:
    """Those under way, which are few."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="probe")
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    async def of(self, target: str, seconds: float) -> Probed:
        """Return what is to be said of a target.

        Raises:
            UsageError: it may not be asked for.
            HTTPException: too many probes are under way.

        """
        state = self._context.service.board.read()
        known = watched(target, state.targets)
        if known is not None:
            evaluation = state.evaluations.get(known.deployment)
            said = evaluation.explanation if evaluation is not None and known.up else None
            return Probed(
                explanation=said, took=known.took, error=known.error, deployment=known.deployment, server=known.server
            )
        if not self._free.acquire(blocking=False):
            raise HTTPException(503, f"{MOST_AT_ONCE} probes are under way", {"Retry-After": "5"})
        stopped = threading.Event()
        work = self._pool.submit(self._probe, target, seconds, stopped)
        work.add_done_callback(lambda _: self._free.release())
        try:
            return await asyncio.wrap_future(work)
        finally:
            stopped.set()

    def _probe(self, target: str, seconds: float, stopped: threading.Event) -> Probed:
        networks = self._context.service.settings.probe.allowed_networks
        return probe(pinned(target, networks), seconds, stopped)


def _metrics(target: str, probed: Probed) -> Iterator[Metric]:
    success = GaugeMetricFamily("probe_success", "1 when the target could be read and judged.")
    success.add_metric((), float(probed.explanation is not None))
    yield success
    took = GaugeMetricFamily("probe_duration_seconds", "How long reading the target took.")
    took.add_metric((), probed.took)
    yield took
    if probed.explanation is not None:
        deployment = probed.deployment or target
        servers = probed.explanation.window.sources if probed.server is None else (probed.server,)
        up = [(server, deployment, True) for server in servers]
        said = rows_of(deployment, probed.explanation)
        yield from joined(rows_of_targets(up), (row for row in said if server_of(row) in (None, *servers)))
