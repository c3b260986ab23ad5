"""`/metrics`, rendered ahead: a scrape costs no more than sending a page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
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
from exporters.sinks.exposition import Row, joined, rows_of, rows_of_incidents, rows_of_silence, rows_of_targets

log = logging.getLogger(__name__)
# Rendering may take this share of a processor: of large fleets a page is made less often than once a second.
_MOST_OF_PROCESSOR = 0.03
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


def format_of(accept: str) -> str:
    """Return the content type that an `Accept` header asks for."""
    return OPENMETRICS if "application/openmetrics-text" in accept else CONTENT_TYPE_PLAIN_0_0_4


class Exposition:
    """Makes the page of the newest state. A format that nobody ever asked for is made when someone first does."""

    def __init__(self, metrics: OwnMetrics, window: float, clock: Callable[[], float] = time.time) -> None:
        """Begin with nothing.

        Args:
            metrics: the service's own.
            window: seconds that a verdict is about.
            clock: Unix seconds.

        """
        self._metrics, self._window, self._clock = metrics, window, clock
        self._state = LiveState()
        self._rows: dict[str, tuple[Evaluation, Sequence[Row]]] = {}
        self._pages: dict[str, bytes] = {}
        self._due = 0.0

    def update(self, state: LiveState) -> None:
        """Take a new state; what its verdicts say is read at once, once."""
        known = self._rows
        self._rows = {
            name: known[name] if name in known and known[name][0] is one else (one, self._rows_of(one))
            for name, one in state.evaluations.items()
        }
        self._state = state

    def render(self) -> None:
        """Make the pages that were asked for, if it is time."""
        if time.monotonic() < self._due:
            return
        begun = time.thread_time()
        for media_type in tuple(self._pages):
            self._pages[media_type] = rendered(self._collect, media_type)
        took = time.thread_time() - begun
        self._metrics.page_seconds.set(took)
        self._due = time.monotonic() + took / _MOST_OF_PROCESSOR

    def page(self, media_type: str) -> bytes:
        """Return the newest page."""
        page = self._pages.get(media_type)
        if page is None:
            page = self._pages[media_type] = rendered(self._collect, media_type)
        return page

    def _rows_of(self, evaluation: Evaluation) -> Sequence[Row]:
        try:
            return rows_of(evaluation.deployment, evaluation.explanation)
        except Exception:
            # One deployment's absurd bodies must not take the metrics of all others away.
            self._metrics.errors.labels("exposition").inc()
            log.exception("metrics of %s", evaluation.deployment)
            return ()

    def _collect(self) -> Iterator[Metric]:
        state, now = self._state, self._clock()
        since = now - STALE_AFTER * self._window
        targets = ((one.server, one.deployment, one.up, one.last_success) for one in state.targets.values())
        silent = _silent(state, now)
        verdicts = chain.from_iterable(
            rows_of_silence(name, one.explanation) if name in silent else rows
            for name, (one, rows) in self._rows.items()
            if one.at >= since or name in silent
        )
        yield from self._metrics.registry.collect()
        yield from joined(rows_of_targets(targets), verdicts, rows_of_incidents(state.incidents))


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
