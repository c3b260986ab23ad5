"""Deployments that keep what they are given, and doors that take spans for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from diagnostics.service.deployment import Arrival, RoutedSpans
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.server import WebServer
from diagnostics.service.otlp_intake import OtlpIntake
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.state import TargetState
from diagnostics.settings.load import load
from diagnostics.settings.tree import DeploymentSettings, OtlpSettings, ServerSettings, Settings
from diagnostics.wire.records import Scrape
from diagnostics.wire.spans import Span
from tests.builders import Stage, model_config
from tests.builders_traces import Leg, ensemble_trace, export, trace_id
from tests.service.http.door import Door
from tests.store.lived import deployment, rounds

LEGS = (Leg(model="tokenizer", compute=0.001), Leg(model="llm", compute=0.1))
SPANS_A_TRACE = 6


def body(*numbers: int, service: str = "triton-inference-server", name: str = "chat") -> bytes:
    """Return an export of so many requests of an ensemble, begun now."""
    now = time.time() - 1_000_000.0  # the builder's beginning of time
    return export(
        (one for number in numbers for one in ensemble_trace(trace_id(number), now, LEGS, name=name)), service
    )


@dataclass
class Kept:
    """In place of a deployment."""

    full: bool = False
    traced: list[RoutedSpans] = field(default_factory=list)

    def give(self, arrival: Arrival) -> bool:
        assert isinstance(arrival, RoutedSpans)
        self.traced += [] if self.full else [arrival]
        return not self.full

    @property
    def spans(self) -> list[Span]:
        return [span for one in self.traced for span in one.spans]


@dataclass
class Recording:
    """In place of a history."""

    scrapes: list[tuple[str, Scrape]] = field(default_factory=list)

    def record_clean(self, deployment: str, scrape: Scrape) -> None:
        self.scrapes.append((deployment, scrape))


@dataclass
class Watched:
    """A service of some deployments, each of one server, that keep what they are given."""

    names: Sequence[str] = ("chat",)
    per_second: int = 50_000
    memory: Recording | None = None
    kept_per_second: int = 200
    now: float = 0.0

    def __post_init__(self) -> None:
        urls = {name: f"http://{name}.example:8000" for name in self.names}
        servers = tuple(ServerSettings(url=url) for url in urls.values())
        written = tuple(DeploymentSettings(name=name, servers=(url,)) for name, url in urls.items())
        self.metrics = OwnMetrics()
        self.service = Service(Settings(server=servers, deployment=written), metrics=self.metrics)
        self.kept = {name: Kept() for name in self.names}
        self.service.deployments = self.kept  # type: ignore[assignment]
        self.settings = OtlpSettings(
            max_spans_per_second=self.per_second, max_kept_spans_per_second=self.kept_per_second
        )
        self.intake = OtlpIntake(self.service, self.metrics, self.settings, memory=self.memory, clock=lambda: self.now)

    def serves(self, name: str, *models: str) -> None:
        """Put a verdict on the board, of a server with these models."""
        watched = deployment(OwnMetrics())
        stages = tuple(Stage(model, rate=20, execution=0.01, config=model_config(model)) for model in models)
        for scrapes in rounds(3, begin=time.time() - 60, models=stages):
            for scrape in scrapes:
                watched.give(scrape)
        watched.take_in()
        url = f"http://{name}.example:8000"
        server = TargetState(server=f"{name}.example:8002", url=url, deployment=name, up=True, interval=15.0)
        self.service.board.publish_target(server)
        self.service.board.publish_evaluation(replace(watched.evaluate(), deployment=name), ())

    def counted(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("diag_spans_total", {"outcome": outcome}) or 0.0


@contextmanager
def receiving(watched: Watched | None = None, **settings: str) -> Iterator[tuple[Watched, Door]]:
    """Open a door that takes spans; settings are named with `__` for dots."""
    found = watched or Watched()
    flags = {"web.listen_address": "127.0.0.1:0"} | {name.replace("__", "."): text for name, text in settings.items()}
    chosen = load(None, {}, flags).settings
    context = WebContext(
        service=found.service, history=None, settings=chosen, metrics=found.metrics, intake=found.intake
    )
    server = WebServer(context)
    server.start()
    try:
        yield found, Door(server, found.service)
    finally:
        server.stop()
