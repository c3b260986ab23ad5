"""Where `diag watch` gets its states from: a running service, or servers that it reads itself."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diagnostics.cli.running_service import PATIENCE, FleetAnswer, RunningService, ServiceStateAnswer
from diagnostics.cli.sources import looks_like_a_path
from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.diagnosis.validation import ForecastCache
from diagnostics.errors import CollectError, UsageError
from diagnostics.render import phrases
from diagnostics.render.explanation.json import finding_head
from diagnostics.render.live import Json
from diagnostics.window.rolling import WINDOW_SECONDS, RollingWindow
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions

States = Generator[Json, None, None]
# A service that went away is asked again after so long.
PAUSE = 2.0


def states_of_service(url: str | None, options: SourceOptions, *, once: bool) -> States:
    """Yield the service's state, again each time it changed; the last one with an `error` while it does not answer.

    Raises:
        CollectError: it does not answer the first time.

    """
    service = RunningService(url, options)
    state: Json = service.json("/state", ServiceStateAnswer)
    yield state
    while not once:
        try:
            state = service.json("/state", ServiceStateAnswer, after=state["version"], wait=PATIENCE - 5.0)
            yield state
        except CollectError as error:
            yield {**state, "now": time.time(), "error": str(error)}
            time.sleep(PAUSE)


def states_of_fleet(url: str | None, options: SourceOptions, *, once: bool) -> States:
    """Yield the fleet as the service knows it, every few seconds; the last one with an `error` while it is silent.

    Raises:
        CollectError: it does not answer the first time.

    """
    service = RunningService(url, options)
    fleet: Json = service.json("/fleet", FleetAnswer)
    yield fleet
    while not once:
        time.sleep(PAUSE)
        try:
            fleet = service.json("/fleet", FleetAnswer)
            yield fleet
        except CollectError as error:
            yield {**fleet, "now": time.time(), "error": str(error)}


def states_of_sources(sources: Sequence[str], interval: float, options: SourceOptions) -> States:
    """Yield a state of the servers every `interval` seconds, each about the newest five minutes.

    Raises:
        UsageError: a source is a capture.
        Exit: no server was found.

    """
    from diagnostics.cli.sources import found, opened
    from exporters.sources.dcgm import dcgm_page
    from exporters.sources.schedule import collect

    if any(map(looks_like_a_path, sources)):
        raise UsageError("a recording does not change", where="diag watch", hint="use diag explain")
    servers, _ = found(sources, options)
    with opened(servers, dcgm_page(options)) as read_from:
        watched = WatchedServers({server.name: server.blind_spots for server in servers})
        due = time.monotonic() + interval
        for scrape in collect(read_from, min(1.0, interval)):
            watched.add(scrape)
            if time.monotonic() >= due:
                due = time.monotonic() + interval
                yield watched.state()


class WatchedServers:
    """Servers that are read and judged here."""

    def __init__(self, servers: Mapping[str, Sequence[BlindSpot]]) -> None:
        """Begin with the names of the servers, each with what cannot be read of it."""
        self._name = ", ".join(servers)
        self._unread = {name: next((spot.why for spot in spots), "") for name, spots in servers.items()}
        self._failures: dict[str, dict[BodyKind, str]] = {name: {} for name in servers}
        self._answered: dict[str, float] = {}
        self._window = RollingWindow(self._name, WINDOW_SECONDS)
        self._book = IncidentBook(self._name)
        self._options = DiagnosisOptions(
            blind_spots=[spot for spots in servers.values() for spot in spots],
            present=True,
            validation=Validation(forecasts=ForecastCache()),
        )

    def add(self, scrape: Scrape) -> None:
        """Take one scrape."""
        self._window.add(scrape)
        if scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS) and scrape.error not in self._unread.values():
            self._failures[scrape.server][scrape.kind] = (
                "" if scrape.error is None else f"{scrape.kind}: {scrape.error}"
            )
            if scrape.error is None:
                self._answered[scrape.server] = scrape.at

    def _target(self, name: str) -> Json:
        failures = self._failures[name]
        error = next((error for error in failures.values() if error), self._unread[name])
        return {
            "server": name,
            "deployment": self._name,
            "up": not failures or not all(failures.values()),
            "error": error,
        }

    def state(self) -> Json:
        """Return the state of now, in the form of the service's API."""
        explanation = diagnose(self._window.window(), self._options)
        self._book.update(explanation, time.time(), time.monotonic())
        targets = [self._target(name) for name in self._failures]
        since = None if any(one["up"] for one in targets) else max(self._answered.values(), default=None)
        return {
            "now": time.time(),
            "targets": targets,
            "deployments": [
                {
                    **_deployment(self._name, explanation),
                    "no_data_since": since,
                    "age": max(time.time() - explanation.window.end, 0.0),
                }
            ],
            "incidents": [asdict(incident) for incident in self._book.open],
        }


def _deployment(name: str, explanation: Explanation) -> Json:
    return {
        "name": name,
        "servers": list(explanation.window.sources),
        "verdict": explanation.verdict.value,
        "answer": phrases.answer(explanation),
        "reason": explanation.reason,
        "layer": explanation.layer.value if explanation.layer else None,
        "changes": phrases.changes(explanation),
        "findings": [_finding(finding) for finding in explanation.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    impact = finding.impact
    return finding_head(finding) | {
        "seconds_per_request": impact.seconds_per_request,
        "share_of_latency": impact.share_of_latency,
        "share_of_requests_failed": impact.share_of_requests_failed,
        "caused_by": finding.caused_by,
        "step": phrases.remedy(finding.suggestion) if finding.suggestion else None,
    }
