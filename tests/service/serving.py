"""A service whose board is filled from recorded and made-up windows, behind its real HTTP server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.service.fleet import FleetBoard
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.server import WebServer
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.slo_keeper import SloKeeper
from diagnostics.service.state import Evaluation, TargetState
from diagnostics.settings.tree import DeploymentSettings, FleetSettings, ServerSettings, Settings, WebSettings
from diagnostics.signals.signal import Scope
from diagnostics.slo.slo import Slo
from diagnostics.store.reader import HistoryReader
from diagnostics.store.workers import WorkerReports
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import Scrape
from tests.builders import explained

ROOT = Path(__file__).parents[2]


@dataclass
class Serving:
    """The service of some deployments, each of one server. Nothing is read: verdicts are put on its board.

    The fleet's clock is `ahead` by so many seconds.
    """

    names: Sequence[str]
    history: HistoryReader | None = None
    port: int = 0
    metrics: OwnMetrics = field(default_factory=OwnMetrics)
    web: Mapping[str, object] = field(default_factory=dict)
    objective: str = ""
    slos: Sequence[Slo] = ()
    fleet: FleetSettings = field(default_factory=FleetSettings)
    reports: WorkerReports | None = None
    ahead: float = 0.0

    def __enter__(self) -> Serving:
        urls = {name: f"http://{name}.example:8000" for name in self.names}
        settings = Settings(
            web=WebSettings.model_validate({"listen_address": f"127.0.0.1:{self.port}", **self.web}),
            server=tuple(ServerSettings(url=url) for url in urls.values()),
            deployment=tuple(
                DeploymentSettings(name=name, servers=(url,), objective=self.objective) for name, url in urls.items()
            ),
            fleet=self.fleet,
        )
        self.service = Service(settings, metrics=self.metrics)
        self.books = {name: IncidentBook(name, open_after=1) for name in self.names}
        self.keeper = SloKeeper(self.slos) if self.slos else None
        self.board = FleetBoard(self.service, self.reports, lambda: time.time() + self.ahead)
        context = WebContext(
            service=self.service,
            history=self.history,
            settings=settings,
            metrics=self.metrics,
            objectives=self.keeper,
            fleet=self.board,
        )
        self._web = WebServer(context)
        self._web.start()
        self.port = self._web.port
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._web.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reached(
        self,
        name: str,
        *,
        error: str = "",
        ago: float | None = 5.0,
        server: str = "",
        deployment: str = "",
        served: bool | None = None,
        **found: Any,
    ) -> None:
        """Tell that a round of a deployment's server has ended."""
        now = time.time()
        self.service.board.publish_target(
            TargetState(
                server=server or f"{name}.example:8002",
                url=f"http://{name}.example:8000",
                deployment=deployment or name,
                up=not error,
                interval=15.0,
                last_round=now,
                last_success=now if not error else now - ago if ago is not None else None,
                failures=3 if error else 0,
                error=error,
                served=served,
                **found,
            )
        )

    def stated(self, name: str, explanation: Explanation, at: float | None = None) -> Evaluation:
        """Put a verdict on the board, as if its window ended at Unix second `at`, by default now."""
        at = at or time.time()
        changes = self.books[name].update(explanation, at, time.monotonic())
        made = Evaluation(deployment=name, at=at, took=0.1, lag=0.2, explanation=explanation, changes=changes)
        self.service.board.publish_evaluation(made, self.books[name].open)
        if self.keeper is not None:
            # As if its servers were counted before the window began.
            reached = self.keeper._reached[name]
            for subject in explanation.evidence.subjects(Scope.SERVER):
                reached.setdefault(subject.server, 0.0)
            self.keeper.consume(made)
        self.reached(name)
        return made


def recorded(name: str) -> Explanation:
    """Return the verdict on a capture of the repository, moved so that its window ended within the last minute."""
    return _recorded(name, int(time.time() / 60))


@cache
def _recorded(name: str, _minute: int) -> Explanation:
    return recorded_now(name)


def recorded_now(name: str) -> Explanation:
    """Return the verdict on a capture of the repository, moved so that its window ends now."""
    scrapes = open_capture(ROOT / f"fixtures/captures/{name}.tar.xz").scrapes()
    return explained(window_of(moved(scrapes)))


def moved(scrapes: Iterable[Scrape]) -> list[Scrape]:
    """Return scrapes whose last is of now."""
    kept = list(scrapes)
    shift = time.time() - max(one.at for one in kept)
    return [replace(one, at=one.at + shift) for one in kept]
