"""The fleet as a whole: how the deployments of every worker stand, through the database that the workers share.

Each worker writes how its own deployments stand, and reads what the others wrote. Which worker watches a deployment
follows from the settings, so that one whose worker never reported is missed, too.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from diagnostics.render import phrases
from diagnostics.render.plain import clean
from diagnostics.service.fleet_rows import FleetRow, FleetRows
from diagnostics.service.own.metrics import FaultPart
from diagnostics.service.plan import deployments, owner
from diagnostics.service.service import Service
from diagnostics.service.standing import ORDER, Standing, harm_of, place_of, since, standings
from diagnostics.service.state import OLD_AFTER, LiveState
from diagnostics.settings.tree import Settings
from diagnostics.store.database import reason_of
from diagnostics.store.workers import WorkerReport, WorkerReports
from diagnostics.units import LATEST_SECOND
from exporters.sinks.links import Links

log = logging.getLogger(__name__)
# As often as servers are read by default.
SECONDS_BETWEEN_REPORTS = 15.0
SILENT_AFTER = OLD_AFTER * SECONDS_BETWEEN_REPORTS
SILENT, WAITING = "worker silent", "waiting"
_Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST_SECOND)]
_FAULT = "exchanging reports with the other workers"
_ALONE = "being the only one that reports as worker {worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEntry:
    """How a deployment stands. Times are Unix seconds.

    Attributes:
        name: its name.
        word: its verdict, `unreachable`, `partly unreachable` or `waiting`, as on its own page; `worker silent` where
            its worker does not report.
        tone: `critical`, `warning`, `quiet` or `healthy`.
        headline: why, in one sentence.
        check: the first cause; empty where there is none.
        about: what the first cause is about, as in `safety`; empty where there is none.
        entry: the entry point whose requests the figures are of; empty without traffic.
        statistic: which statistic `seconds` is, as `p95`; empty without traffic.
        seconds: the request time in seconds; null where it is not known.
        objective: the objective, as in `p95 < 200ms`; empty where none is stated.
        missed: whether the objective is measured, and missed.
        per_second: requests per second; null without traffic.
        since: when the first cause began, or its worker was last heard of; null where that is not known.
        at: of the newest scrape that the verdict saw; null before the first verdict.
        servers: how many servers it has.
        down: how many of them do not answer.
        harm: the share of latency or of requests that the first cause takes, 0 to 1: what the list is sorted by.
        place: order among those without harm: 0 was read before and is not now, 1 is not healthy, 2 others.
        worker: number of its worker.
        url: its page.

    """

    name: str
    word: str
    tone: str
    headline: str
    check: str = ""
    about: str = ""
    entry: str = ""
    statistic: str = ""
    seconds: float | None = None
    objective: str = ""
    missed: bool = False
    per_second: float | None = None
    since: _Time | None = None
    at: _Time | None = None
    servers: int = 0
    down: int = 0
    harm: float = 0.0
    place: int = 2
    worker: int = 0
    url: str = ""

    @property
    def rank(self) -> tuple[int, float, int, str]:
        """What entries are sorted by, the worst first."""
        return ORDER.index(self.tone), -self.harm, self.place, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """A worker of the fleet.

    Attributes:
        worker: its number, from 0 on.
        url: its page; empty where it never reported.
        reported: Unix second of its last report; null where it never reported.
        silent: whether it does not report.
        deployments: how many deployments are its own.

    """

    worker: int
    url: str
    reported: float | None
    silent: bool
    deployments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """All deployments of all workers, the worst first, as this worker knows them.

    Attributes:
        now: this worker's clock, Unix seconds.
        worker: this worker's number.
        workers: all workers, by number.
        deployments: all deployments.

    """

    now: float
    worker: int
    workers: tuple[WorkerState, ...]
    deployments: tuple[FleetEntry, ...]


@dataclass(frozen=True, slots=True)
class _Report:
    """What a worker writes of itself."""

    url: str = ""
    deployments: Sequence[FleetEntry] = ()
    worker: int = 0
    at: float = 0.0
    # By the clock of whoever reads it: when it was new.
    heard: float = 0.0
    # Which process wrote it: a number may be given twice by mistake. Empty of earlier versions.
    process: str = ""


@dataclass(slots=True)
class _Exchanged:
    """What was read last: the others' reports by worker, and when that was in Unix seconds; None before."""

    reports: Mapping[int, _Report] = field(default_factory=dict)
    at: float | None = None


class FleetBoard:
    """Shows the fleet to any thread; a thread of its own exchanges reports where there are other workers."""

    def __init__(
        self, service: Service, reports: WorkerReports | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Know only one's own deployments; `reports` None where no other process may share the database."""
        self._service, self._clock, self._started = service, clock, clock()
        shared = reports is not None and (service.settings.fleet.workers > 1 or reports.shared)
        self._reports = reports if shared else None
        self._process = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(8)}"
        self._reported = False
        self._links = Links.of(service.settings.web)
        self._rows = FleetRows()
        self._known = _Exchanged()
        self._owners: tuple[Settings | None, Mapping[str, int]] = (None, {})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Begin to exchange reports."""
        if self._reports is not None:
            self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def update(self, state: LiveState) -> None:
        """Make the rows of new verdicts, while their windows are at hand."""
        self._rows.update(state)

    def rows(self, found: Sequence[Standing]) -> Iterator[tuple[Standing, FleetRow]]:
        """Yield each of this worker's deployments with its row."""
        return self._rows.rows(found)

    def state(self) -> FleetState:
        """Return the whole fleet, the worst first."""
        fleet = self._service.settings.fleet
        mine = _Report(f"{self._links.base}/", self._own(), fleet.worker, self._clock())
        reports = {**self._known.reports, fleet.worker: mine}
        entries = mine.deployments if fleet.workers == 1 else tuple(self._entries(reports))
        workers = tuple(self._worker(number, reports.get(number), entries) for number in range(fleet.workers))
        ordered = tuple(sorted(entries, key=lambda one: one.rank))
        return FleetState(now=self._clock(), worker=fleet.worker, workers=workers, deployments=ordered)

    def exchange(self) -> None:
        """Write how one's own deployments stand, and read what the others wrote; a failure becomes a fault."""
        assert self._reports is not None
        worker, faults = self._service.settings.fleet.worker, self._service.metrics.faults
        try:
            now, read = self._clock(), self._reports.read(self._service.settings.fleet.workers)
            found = {one.worker: replace(_read(one), heard=self._heard(one, now)) for one in read}
            self._look_for_double(found.get(worker))
            body = msgspec.json.encode(_Report(f"{self._links.base}/", self._own(), process=self._process))
            self._reports.put(WorkerReport(worker, self._clock(), body))
            self._reported = True
            self._known = _Exchanged({number: one for number, one in found.items() if number != worker}, now)
        except SQLAlchemyError as error:
            self._service.metrics.errors.labels("fleet").inc()
            faults.failed(_FAULT, reason_of(error), FaultPart.FLEET)
        else:
            faults.works(_FAULT)

    def _look_for_double(self, last: _Report | None) -> None:
        """Report another process that wrote this worker's report since this one did: both overwrite each other."""
        fleet, faults = self._service.settings.fleet, self._service.metrics.faults
        what = _ALONE.format(worker=fleet.worker)
        if not self._reported or last is None or last.process == self._process:
            faults.works(what)
            return
        reason = (
            f"{_shown(last.process)} does so in the same database; stop one of them, or give it its own fleet.worker, "
            "or its own history.database"
        )
        if all(one.what != what for one in faults.lasting()):
            log.warning("%s: %s", what, reason)
        faults.failed(what, reason, FaultPart.FLEET)

    def _heard(self, one: WorkerReport, now: float) -> float:
        """Return when a report was new: by this clock, as that of the machine which wrote it may be wrong."""
        known = self._known.reports.get(one.worker)
        if known is None:
            return min(one.at, now)
        return known.heard if known.at == one.at else now

    def _run(self) -> None:
        while True:
            self.exchange()
            if self._stopped.wait(SECONDS_BETWEEN_REPORTS):
                return

    def _own(self) -> Sequence[FleetEntry]:
        found = standings(self._service.board.read(), self._service.deployments)
        worker = self._service.settings.fleet.worker
        return [_entry(one, row, worker, self._links) for one, row in self._rows.rows(found)]

    def _named(self) -> Mapping[str, int]:
        """Return the worker of each deployment that the settings name, or that was found."""
        settings = self._service.settings
        if self._owners[0] is not settings:
            self._owners = settings, {name: owner(name, settings.fleet.workers) for name in deployments(settings)}
        return self._owners[1]

    def _entries(self, reports: Mapping[int, _Report]) -> Iterator[FleetEntry]:
        workers, named = self._service.settings.fleet.workers, self._named()
        # A worker whose settings are newer than these may name more; one whose settings are older, what moved away.
        reported = {
            one.name: one
            for number, report in reports.items()
            for one in report.deployments
            if owner(one.name, workers) == number
        }
        for name in dict.fromkeys((*named, *reported)):
            number = owner(name, workers)
            known = reported.get(name) or FleetEntry(name=name, word=WAITING, tone="quiet", headline="", worker=number)
            report = reports.get(number)
            if self._is_silent(number, report):
                yield _silent(known, report)
            elif known.headline:
                yield known
            else:
                yield replace(known, headline=f"waiting for worker {number}")

    def _worker(self, number: int, report: _Report | None, entries: Sequence[FleetEntry]) -> WorkerState:
        return WorkerState(
            worker=number,
            url=report.url if report else "",
            reported=report.at if report else None,
            silent=self._is_silent(number, report),
            deployments=sum(one.worker == number for one in entries),
        )

    def _is_silent(self, number: int, report: _Report | None) -> bool:
        """Return whether a worker had not reported for a minute when reports were last read; nobody is before that."""
        if number == self._service.settings.fleet.worker or self._known.at is None:
            return False
        # All workers may just have been started.
        heard = report.heard if report is not None else self._started
        return self._known.at - heard > SILENT_AFTER


def _shown(process: str) -> str:
    """Return a process in words, of what a report calls it: its host, its number there, and what identifies it."""
    host, _, number = clean(process).rpartition("/")[0].rpartition("/")
    return f"process {number[:20]} on {host[:100]}" if host else "another process"


def _read(one: WorkerReport) -> _Report:
    """Return a worker's report; an empty one where another version wrote what cannot be read."""
    try:
        made = msgspec.json.decode(one.body, type=_Report)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        made = _Report()
    known = [
        entry if entry.url.startswith(("http://", "https://")) else replace(entry, url="")
        for entry in made.deployments
        if entry.tone in ORDER
    ]
    return replace(made, worker=one.worker, at=one.at, deployments=known)


def _entry(standing: Standing, row: FleetRow, worker: int, links: Links) -> FleetEntry:
    explanation = standing.explanation
    first = next(iter(explanation.actionable), None) if explanation else None
    return FleetEntry(
        name=standing.name,
        word=standing.word,
        tone=standing.tone,
        headline=standing.headline,
        check=first.check if first else "",
        about=phrases.subject_name(first) if first else "",
        entry=row.entry,
        statistic=row.statistic,
        seconds=row.seconds,
        objective=row.objective.text if row.objective else "",
        missed=row.missed,
        per_second=row.per_second,
        since=since(standing),
        at=standing.evaluation.at if standing.evaluation else None,
        servers=len(standing.targets),
        down=len(standing.down),
        harm=harm_of(standing),
        place=place_of(standing),
        worker=worker,
        url=links.deployment(standing.name),
    )


def _silent(known: FleetEntry, report: _Report | None) -> FleetEntry:
    """Return an entry whose worker does not report: how it stands is not known, only how it stood."""
    before = f"; before: {known.word}" if report is not None and known.word != WAITING else ""
    headline = f"worker {known.worker} {'does not report' if report else 'has never reported'}{before}"
    tone = known.tone if known.tone == "critical" else "warning"
    return replace(
        known,
        word=SILENT,
        tone=tone,
        headline=headline,
        seconds=None,
        missed=False,
        per_second=None,
        since=report.at if report else None,
        harm=0.0,
        place=0,
    )
