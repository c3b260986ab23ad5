"""`/metrics`, rendered ahead: a scrape costs no more than sending a page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.exposition import generate_latest as plain
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import OLD_AFTER, Evaluation, LiveState
from exporters.sinks.exposition import (
    Row,
    families,
    rows_of,
    rows_of_incidents,
    rows_of_silence,
    rows_of_targets,
    server_of,
)

log = logging.getLogger(__name__)
# Rendering may take this share of a processor: of larger fleets a page is made less often than once a second. A new
# verdict on twenty models takes 3 ms to write. On 250 servers every 15 s that is a twentieth of a processor: with less
# than that a page would be older than the next round.
_MOST_OF_PROCESSOR = 0.1
# A verdict that has not been renewed for so many windows says nothing of now.
STALE_AFTER = 2.0


class Page(CollectorRegistry):
    """Some metrics as a page."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        super().__init__(auto_describe=False)
        self._made = collect

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        return self._made()


def rendered(metrics: Callable[[], Iterator[Metric]], media_type: str) -> bytes:
    """Return the page in one of the two formats."""
    make: Callable[[CollectorRegistry], bytes] = openmetrics if media_type == OPENMETRICS else plain
    return make(Page(metrics))


Blocks = dict[bytes, bytes]
"""The samples of families, by the lines that stand above them."""
_END = b"# EOF\n"


def _blocks(rows: Sequence[Row], media_type: str) -> Blocks:
    """Return the text of rows."""
    page = rendered(lambda: families(rows), media_type).removesuffix(_END)
    found: Blocks = {}
    for family in (b"\n" + page).split(b"\n# HELP ")[1:]:
        described, typed, samples = family.split(b"\n", 2)
        found[b"# HELP " + described + b"\n" + typed + b"\n"] = samples.removesuffix(b"\n") + b"\n"
    return found


class ShownVerdict:
    """What a verdict says: in rows, and as text of each format that was asked for.

    Attributes:
        evaluation: the verdict.
        rows: a series each.
        servers: those that series are about.

    """

    def __init__(self, evaluation: Evaluation, rows: Sequence[Row]) -> None:
        self.evaluation, self.rows = evaluation, rows
        self.servers = {server for server in map(server_of, rows) if server is not None}
        self._blocks: dict[str, Blocks] = {}

    def blocks(self, media_type: str) -> Blocks:
        """Return the rows as text, made once."""
        if media_type not in self._blocks:
            self._blocks[media_type] = _blocks(self.rows, media_type)
        return self._blocks[media_type]


def format_of(accept: str) -> str:
    """Return the content type that an `Accept` header asks for."""
    return OPENMETRICS if "application/openmetrics-text" in accept else CONTENT_TYPE_PLAIN_0_0_4


class Exposition:
    """Makes the page of the newest state. A format that nobody ever asked for is made when someone first does.

    Of a verdict that is not new the text is kept: a round of one server costs what is about that one.
    """

    def __init__(self, metrics: OwnMetrics, window: float, clock: Callable[[], float] = time.time) -> None:
        """Begin with nothing.

        Args:
            metrics: the service's own.
            window: seconds that a verdict is about.
            clock: Unix seconds.

        """
        self._metrics, self._window, self._clock = metrics, window, clock
        # Pages are made in threads of their own: what belongs together is exchanged at once.
        self._newest: tuple[LiveState, Mapping[str, ShownVerdict]] = LiveState(), {}
        self._pages: dict[str, bytes] = {}
        self._due = 0.0

    def update(self, state: LiveState) -> None:
        """Take a new state; what its verdicts say is read at once, once."""
        _, known = self._newest
        shown = {
            name: known[name]
            if name in known and known[name].evaluation is one
            else ShownVerdict(one, self._rows_of(one))
            for name, one in state.evaluations.items()
        }
        self._newest = state, shown

    def render(self) -> None:
        """Make the pages that were asked for, if it is time."""
        if time.monotonic() < self._due:
            return
        begun = time.thread_time()
        for media_type in tuple(self._pages):
            self._pages[media_type] = self._written(media_type)
        took = time.thread_time() - begun
        self._metrics.page_seconds.set(took)
        self._due = time.monotonic() + took / _MOST_OF_PROCESSOR

    def page(self, media_type: str) -> bytes:
        """Return the newest page."""
        page = self._pages.get(media_type)
        if page is None:
            page = self._pages[media_type] = self._written(media_type)
        return page

    def _rows_of(self, evaluation: Evaluation) -> Sequence[Row]:
        try:
            return rows_of(evaluation.deployment, evaluation.explanation)
        except Exception:
            # One deployment's absurd bodies must not take the metrics of all others away.
            self._metrics.errors.labels("exposition").inc()
            log.exception("metrics of %s", evaluation.deployment)
            return ()

    def _written(self, media_type: str) -> bytes:
        (state, shown), now = self._newest, self._clock()
        since, silent = now - STALE_AFTER * self._window, _silent(state, now)
        targets = ((one.server, one.deployment, one.up, one.last_success) for one in state.targets.values())
        current = [one for name, one in shown.items() if one.evaluation.at >= since and name not in silent]
        others = chain(
            rows_of_targets(targets),
            *(rows_of_silence(name, one.evaluation.explanation) for name, one in shown.items() if name in silent),
            rows_of_incidents(state.incidents),
        )
        if len(set().union(*(one.servers for one in current))) == sum(len(one.servers) for one in current):
            every = [_blocks(list(others), media_type), *(one.blocks(media_type) for one in current)]
        else:  # a server that went to another deployment is in two verdicts, and a page shows each series once
            every = [_blocks([*others, *chain.from_iterable(one.rows for one in current)], media_type)]
        found: dict[bytes, list[bytes]] = {}
        for blocks in every:
            for head, samples in blocks.items():
                found.setdefault(head, []).append(samples)
        own = rendered(lambda: iter(self._metrics.registry.collect()), media_type)
        parts = (part for head, samples in found.items() for part in (head, *samples))
        return b"".join((own.removesuffix(_END), *parts, _END if media_type == OPENMETRICS else b""))


def _silent(state: LiveState, now: float) -> set[str]:
    """Return the deployments of which nobody answered for some rounds: their last verdict is none about now."""
    longest: dict[str, float] = {}
    for one in state.targets.values():
        longest[one.deployment] = max(longest.get(one.deployment, 0.0), OLD_AFTER * one.interval)
    since = {name: state.silent_since(name) for name in longest}
    return {name for name, at in since.items() if at is not None and now - at > longest[name]}


def router(exposition: Exposition) -> APIRouter:
    """Return `/metrics`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/metrics")
    def metrics(request: Request) -> Response:
        media_type = format_of(request.headers.get("accept", ""))
        return Response(exposition.page(media_type), headers={"Content-Type": media_type, "Vary": "Accept"})

    return routes
