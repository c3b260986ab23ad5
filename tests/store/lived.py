"""A deployment as a service lives with it, without a service: rounds of a synthetic server, judged one by one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.service.deployment import Deployment
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import HistorySettings
from diagnostics.store.history import History
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import Scrape
from exporters.sources.access import read_secret
from tests.builders import START, Stage, SyntheticTriton, model_config

FAST = Stage("fast", rate=20, execution=0.01, config=model_config("fast"))
QUEUED = Stage("slow", rate=38, execution=0.0245, queue=0.17, failing={"BACKEND": 5.0}, config=model_config("slow"))
NAME = "chat"
WINDOW, INTERVAL = 300.0, 15.0


def rounds(
    count: int,
    *,
    begin: float,
    interval: float = INTERVAL,
    steady: float = 500.0,
    models: tuple[Stage, ...] = (FAST, QUEUED),
) -> list[list[Scrape]]:
    """Return so many rounds from Unix second `begin` on; the steady clock begins elsewhere."""
    triton = SyntheticTriton(models=models, interval=interval)
    moved = [replace(one, at=one.at - START + begin, mono=one.at - START + steady) for one in triton.scrapes(count)]
    return [list(group) for _, group in itertools.groupby(moved, key=lambda one: one.mono)]


def deployment(metrics: OwnMetrics, close_after: float = 60.0) -> Deployment:
    book = IncidentBook(NAME, close_after=close_after)
    return Deployment(NAME, RollingWindow(NAME, WINDOW, max_spans=1_000), book, metrics, interval=INTERVAL)


def live(history: History, watched: Deployment, lived: list[list[Scrape]]) -> Iterator[Evaluation]:
    """Hand every round to deployment and history, as the service does, and yield each verdict."""
    for scrapes in lived:
        for scrape in scrapes:
            watched.give(scrape)
            history.consume_scrape(NAME, scrape)
        watched.take_in()
        evaluation = watched.evaluate()
        history.consume(evaluation)
        yield evaluation


def opened(
    directory: Path,
    metrics: OwnMetrics | None = None,
    owns: Callable[[str], bool] = lambda _: True,
    **settings: object,
) -> History:
    chosen = HistorySettings(directory=directory, **settings)  # type: ignore[arg-type]
    return History(chosen, metrics or OwnMetrics(), read_secret=read_secret, patience=5.0, owns=owns)


def value(metrics: OwnMetrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
