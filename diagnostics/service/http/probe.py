"""Explaining a server on demand: which may be asked for, and what a few rounds of it show."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Response
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.errors import CollectError, DiagError, UsageError
from diagnostics.render.plain import clean
from diagnostics.service.http.api import ONLY_KNOWN
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.metrics import format_of, rendered
from diagnostics.service.listening import ip_of
from diagnostics.service.state import TargetState
from diagnostics.window.window import window_of
from diagnostics.wire.records import Scrape
from exporters.sinks.exposition import joined, rows_of, rows_of_targets, server_of
from exporters.sources.access import SourceOptions
from exporters.sources.address import Address, parse_address
from exporters.sources.triton import TritonServer, discover

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Seconds between two rounds, and the longest that one read may take.
PAUSE = 1.0
_ONE_READ = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe showed.

    Attributes:
        explanation: None when the server could not be read.
        took: seconds of reading.
        error: why there is no explanation; empty when there is one.
        deployment: of a server that is watched.
        server: its name; None where the explanation is of nothing else.

    """

    explanation: Explanation | None
    took: float
    error: str = ""
    deployment: str | None = None
    server: str | None = None


def watched(target: str, targets: Mapping[str, TargetState]) -> TargetState | None:
    """Return the server that is watched anyway and is meant by `target`: its URL, `host:port` of it, or its name."""
    if target in targets:
        return targets[target]
    wanted = parse_address(target)
    for one in targets.values():
        if one.server == target or _same(wanted, parse_address(one.url)):
            return one
    return None


def _same(one: Address, other: Address) -> bool:
    return (one.host.lower(), one.port) == (other.host.lower(), other.port)


def pinned(target: str, allowed: Sequence[Network]) -> str:
    """Return the URL of a server in an allowed network, its name replaced by the address that was looked at.

    A name could lead elsewhere the next time it is asked for; only one under TLS stays, as its certificate binds it.

    Raises:
        UsageError: the target is no address, holds credentials, or is in no allowed network.
        CollectError: its name is not known.

    """
    address = parse_address(target)
    if address.user is not None:
        raise UsageError("a target with credentials is not asked for", where="target")
    hint = "watch it ([[server]]), or list its network in probe.allowed_networks"
    found = _addresses(address.host) if allowed else []
    if not found or not all(_within(one, allowed) for one in found):
        raise UsageError("is neither watched nor in an allowed network", where=str(address), hint=hint)
    return str(address if address.secure else replace(address, host=found[0]))


def _addresses(host: str) -> list[str]:
    if ip_of(host) is not None:
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CollectError("host name not found", where=host) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _within(host: str, allowed: Iterable[Network]) -> bool:
    ip = ip_of(host)
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip is not None and any(ip in network for network in allowed)


def probe(url: str, seconds: float, stopped: threading.Event) -> Probed:
    """Read a server for `seconds`, and return what that shows; sent without any credential."""
    begun = time.monotonic()
    elsewhere = "a probe has none, so name the server in the settings, with bearer_token_file or basic_auth_file"
    options = SourceOptions(timeout=min(_ONE_READ, seconds / 2), credentials_by=elsewhere)
    try:
        server = discover(url, options)
    except DiagError as error:
        return Probed(explanation=None, took=time.monotonic() - begun, error=str(error))
    try:
        scrapes = _rounds(server, begun + seconds, stopped)
    finally:
        server.close()
    quick = DiagnosisOptions(blind_spots=server.blind_spots, validation=Validation(simulate=False))
    return Probed(explanation=diagnose(window_of(scrapes), quick), took=time.monotonic() - begun)


def _rounds(server: TritonServer, until: float, stopped: threading.Event) -> list[Scrape]:
    """Return rounds until steady second `until`; at least one."""
    scrapes: list[Scrape] = []
    while True:
        begun = time.monotonic()
        scrapes += server.round()
        now = time.monotonic()
        # A round that would not end in time is not begun.
        if max(now, begun + PAUSE) + (now - begun) > until or stopped.wait(max(0.0, begun + PAUSE - now)):
            return scrapes


log = logging.getLogger(__name__)
MODULES = ("explain",)
MOST_AT_ONCE = 4
# Of Prometheus' own deadline, what sending and parsing may take; and what is taken for a deadline where none is stated.
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
    """Return how long a probe may take, of the header in which Prometheus states its deadline."""
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
            stated = evaluation.explanation if evaluation is not None and known.up else None
            return Probed(
                explanation=stated, took=known.took, error=known.error, deployment=known.deployment, server=known.server
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
        up = [(server, deployment, True, None) for server in servers]
        stated = rows_of(deployment, probed.explanation)
        yield from joined(rows_of_targets(up), (row for row in stated if server_of(row) in (None, *servers)))
