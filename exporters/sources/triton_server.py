"""One Triton, once its endpoints are known: what a round of reads gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Protocol

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.diagnosis.port_notes import hidden_by
from diagnostics.errors import MalformedBody
from diagnostics.window.unanswered import INFERENCE_PORT, METRICS_PORT
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import parse_index, parse_statistics
from exporters.sources.http import Obstacle
from exporters.sources.parallel import DeadlineExecutor, ReadOutcome
from exporters.sources.schedule import CLOCK

# How many configurations are read at once: few, since they share the server's inference threads.
_CONFIGS_AT_ONCE = 4
# Nothing that a server exports shows a setting that was changed in place, so configurations are read again: all of a
# usual server in each round, and of hundreds of models so many a second that the reads stay below a percent of a core.
CONFIGS_PER_SECOND = 4.0
FEWEST_CONFIGS = 8
MOST_CONFIGS = 64
# A server that answers some configurations at once and others never would be described for hours: after so many
# timeouts the round ends, and the configurations that are left are read by and by.
_TIMEOUTS_TO_DESCRIBE = 3
_ITERATIONS = "iterations"


class Api(Protocol):
    """A way to the server's own API: HTTP or gRPC."""

    url: str

    def read(self, kind: BodyKind, name: str = "") -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """A verified metrics page.

    Attributes:
        url: the page.
        read: returns the body, or raises ReadFailure.
        iterations: returns an engine's iterations since the last read; None where there are none, or nobody asked.
        alone: whether a server of this kind has no other endpoint to read.
        enclosed: whether it is a Triton inside another server, which opens none of its ports.

    """

    url: str
    read: Callable[[], bytes]
    iterations: Callable[[], bytes] | None = None
    alone: bool = False
    enclosed: bool = False


Key = tuple[BodyKind, str]


class TritonServer:
    """A Triton whose endpoints have been found. Not for use from several threads at once.

    Attributes:
        name: `host:port` of its metrics page, Prometheus' `instance`; else of the port that answers.
        host: name or address of its machine.
        ports: the ports found open.
        api: its HTTP or gRPC API; None when neither is open.
        metrics: its metrics page; None when there is none.
        blind_spots: what closed or unfound ports hide.
        notes: what was not as expected, but hides nothing.
        given: the address that it was found by, as somebody wrote it; empty where nobody did.

    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        ports: tuple[int, ...],
        api: Api | None,
        metrics: Metrics | None,
        blind_spots: tuple[BlindSpot, ...],
        notes: tuple[str, ...] = (),
        timeout: float,
    ) -> None:
        self.name, self.host, self.ports = name, host, ports
        self.api, self.metrics, self.blind_spots, self.notes = api, metrics, blind_spots, notes
        self.given = ""
        self._reported_unfound = False
        self._executor: DeadlineExecutor[Key, bytes] = DeadlineExecutor(timeout)
        self._patience = _TIMEOUTS_TO_DESCRIBE * timeout
        self._versions: Mapping[str, frozenset[str]] = {}
        self._described: Mapping[str, frozenset[str]] | None = None
        self._away = False
        # The digest of each model's newest configuration, and the steady time of its last read.
        self._digests: dict[str, bytes] = {}
        self._checked: dict[str, float] = {}
        self._counted: Mapping[str, int] = {}

    @property
    def http_url(self) -> str:
        """The URL of its HTTP API, without credentials; empty where only gRPC or its metrics are read."""
        return self.api.url if self.api is not None and self.api.url.startswith("http") else ""

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs that are read, without credentials."""
        found = (self.api.url if self.api else None, self.metrics.url if self.metrics else None)
        return tuple(url for url in found if url)

    @property
    def needs_describing(self) -> bool:
        """Whether configurations were never read, or versions changed or the server was away since."""
        return self.api is not None and not self._away and self._described != self._versions

    def scrape(self) -> list[Scrape]:
        """Return one round: metrics, statistics, repository index, each failing alone."""
        reads: dict[Key, Callable[[], bytes]] = {}
        if self.metrics:
            # First, because statistics and index wait for the threads that serve inference.
            reads[BodyKind.METRICS, ""] = self.metrics.read
            if self.metrics.iterations:
                reads[BodyKind.METRICS, _ITERATIONS] = self.metrics.iterations
        if self.api:
            reads[BodyKind.STATISTICS, ""] = partial(self.api.read, BodyKind.STATISTICS)
            reads[BodyKind.INDEX, ""] = partial(self.api.read, BodyKind.INDEX)
        outcomes = self._executor.run(reads)
        self._learn(outcomes)
        return self._scrapes(outcomes)

    def round(self) -> list[Scrape]:
        """Return `scrape()`, and `describe()` where that is due, else the configurations that were changed."""
        scrapes = self.scrape() + self._never_found()
        return scrapes + (self.describe() if self.needs_describing else self._changed(scrapes))

    def _never_found(self) -> list[Scrape]:
        """Return what was not found as failed reads, once: so a recording is judged as the live server was."""
        hidden = {
            hidden_by(METRICS_PORT, self.name): BodyKind.METRICS,
            hidden_by(INFERENCE_PORT, self.name): BodyKind.STATISTICS,
        }
        reported, self._reported_unfound = self._reported_unfound, True
        at, mono = CLOCK.now(), time.monotonic()
        return [
            Scrape(server=self.name, kind=hidden[spot.what], at=at, mono=mono, error=spot.why)
            for spot in self.blind_spots
            if spot.what in hidden and not reported
        ]

    def _changed(self, scrapes: Sequence[Scrape]) -> list[Scrape]:
        """Return the configurations that differ from those read last, of as many models as this round may ask for.

        A read that fails means nothing here: the round's other reads of the same port fail with it.
        """
        if self.api is None or self._away:
            return []
        found: list[Scrape] = []
        for group in _groups(self._due(scrapes), _CONFIGS_AT_ONCE):
            outcomes = self._read(tuple((BodyKind.CONFIG, name) for name in group))
            found += [one for one in self._scrapes(outcomes) if self._is_news(one)]
            if any(_unanswered(outcome) for outcome in outcomes.values()):
                break
        return found

    def _due(self, scrapes: Sequence[Scrape]) -> list[str]:
        """Return the models to ask: those that executed since the last round first, then whose read is oldest."""
        now = time.monotonic()
        served = list(self._versions)
        elapsed = now - max(self._checked.values(), default=now)
        most = round(min(max(CONFIGS_PER_SECOND * elapsed, FEWEST_CONFIGS), MOST_CONFIGS))
        if len(served) <= most:
            return served
        moved = self._moved(scrapes)
        never = float("-inf")
        return sorted(
            served, key=lambda name: (name in self._checked, name not in moved, self._checked.get(name, never))
        )[:most]

    def _moved(self, scrapes: Sequence[Scrape]) -> Set[str]:
        body = next((scrape.body for scrape in scrapes if scrape.kind is BodyKind.STATISTICS), None)
        before, self._counted = self._counted, _executions(body)
        return {name for name, count in self._counted.items() if before.get(name) != count}

    def _is_news(self, scrape: Scrape) -> bool:
        """Note a configuration that was read; return whether it is another than before."""
        if scrape.kind is not BodyKind.CONFIG:
            return False
        self._checked[scrape.name] = scrape.mono
        if scrape.body is None:
            return False
        digest = sha256(scrape.body).digest()
        before, self._digests[scrape.name] = self._digests.get(scrape.name), digest
        return before != digest

    def describe(self) -> list[Scrape]:
        """Return server metadata and the configuration of every served model; nothing without an API."""
        if self.api is None:
            return []
        if not self._versions:
            self._learn(self._read(((BodyKind.INDEX, ""),)))
        self._described = self._versions
        begun = time.monotonic()
        scrapes = self._scrapes(self._read(((BodyKind.SERVER, ""),)))
        for group in _groups(sorted(self._versions), _CONFIGS_AT_ONCE):
            outcomes = self._read(tuple((BodyKind.CONFIG, name) for name in group))
            configs = self._scrapes(outcomes)
            for one in configs:
                self._is_news(one)
            scrapes += configs
            if time.monotonic() - begun > self._patience:
                read = {one.name for one in scrapes}
                return scrapes + [self._late(name) for name in sorted(self._versions) if name not in read]
            if all(_unanswered(outcome) for outcome in outcomes.values()):
                # Do not put hundreds of reads to a server that answers none; the next round tries again.
                self._described = None
                break
        return scrapes

    def _late(self, name: str) -> Scrape:
        """Return the configuration of a model as a read that failed, since there was no time left for it."""
        error = f"not read within {self._patience:g} s: the server is slow with its configurations"
        return Scrape(
            server=self.name,
            kind=BodyKind.CONFIG,
            name=name,
            at=time.time(),
            mono=time.monotonic(),
            took=0.0,
            error=error,
        )

    def close(self) -> None:
        """Close the connection, if one is kept."""
        if self.api:
            self.api.close()

    def _read(self, keys: Sequence[Key]) -> Mapping[Key, ReadOutcome[bytes]]:
        assert self.api is not None
        return self._executor.run({key: partial(self.api.read, *key) for key in keys})

    def _scrapes(self, outcomes: Mapping[Key, ReadOutcome[bytes]]) -> list[Scrape]:
        return [
            Scrape(
                server=self.name,
                kind=kind,
                name=name,
                at=outcome.at,
                mono=outcome.mono,
                took=outcome.took,
                body=outcome.value,
                error=outcome.failure.reason if outcome.failure else None,
            )
            for (kind, name), outcome in outcomes.items()
        ]

    def _learn(self, outcomes: Mapping[Key, ReadOutcome[bytes]]) -> None:
        index = outcomes.get((BodyKind.INDEX, ""))
        if index is None:
            return
        self._away = index.failure is not None and index.failure.obstacle is Obstacle.CLOSED
        if self._away:
            # What comes back may be configured otherwise under the same versions.
            self._described = None
        elif index.value is not None:
            self._versions = _ready_versions(index.value)
        elif statistics := outcomes.get((BodyKind.STATISTICS, "")):
            self._versions = _loaded_versions(statistics.value) or self._versions


def _unanswered(outcome: ReadOutcome[bytes]) -> bool:
    return outcome.failure is not None and outcome.failure.obstacle in (Obstacle.LATE, Obstacle.CLOSED)


def _groups(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))


def _ready_versions(body: bytes) -> Mapping[str, frozenset[str]]:
    try:
        entries = parse_index(body)
    except MalformedBody:
        return {}
    return _by_model([(entry.name, entry.version) for entry in entries if entry.state == "READY"])


def _loaded_versions(body: bytes | None) -> Mapping[str, frozenset[str]]:
    try:
        models = parse_statistics(body) if body else ()
    except MalformedBody:
        return {}
    return _by_model([(model.name, model.version) for model in models])


def _executions(body: bytes | None) -> Mapping[str, int]:
    """Return how often each model executed, all its versions; nothing where the statistics were not read."""
    counts: dict[str, int] = {}
    try:
        models = parse_statistics(body) if body else ()
    except MalformedBody:
        return counts
    for model in models:
        counts[model.name] = counts.get(model.name, 0) + model.execution_count
    return counts


def _by_model(pairs: Sequence[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
    versions: dict[str, set[str]] = {}
    for name, version in pairs:
        versions.setdefault(name, set()).add(version)
    return {name: frozenset(found) for name, found in versions.items()}
