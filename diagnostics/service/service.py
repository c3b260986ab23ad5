"""The service as a whole: puts its parts together, starts them, lets settings change, and ends in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.diagnosis.incident import Incident, IncidentBook
from diagnostics.evidence.evidence import WindowLru
from diagnostics.service.collector import Collector, Round
from diagnostics.service.deployment import Deployment, Gone
from diagnostics.service.evaluator import Evaluator
from diagnostics.service.found_servers import FoundServer, with_found
from diagnostics.service.jobs import Job, MachineReader, TritonReader, unread_part
from diagnostics.service.log_lines import LoggedEvent, log_event
from diagnostics.service.observed import Rollouts
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.plan import Planned, jobs, own, with_machine
from diagnostics.service.state import EvaluationConsumer, ScrapeConsumer, StateBoard, TargetState
from diagnostics.settings.tree import Settings
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import Scrape

log = logging.getLogger(__name__)
FEWEST_SPANS = 500
# Verdicts whose windows are kept for whoever looks closer, beside the bodies that all are made of. Of larger fleets the
# page and the metrics look at each within a second, and a window of another is put together again when asked for.
MOST_AWAKE = 32


class ServiceMemory(EvaluationConsumer, ScrapeConsumer, Protocol):
    """What remembers across restarts."""

    def recent_scrapes(self, deployment: str, since: float) -> Sequence[Scrape]: ...
    def open_incidents(self, deployment: str | None = None) -> Sequence[Incident]: ...


class Service:
    """Everything but the listeners to the outside (HTTP, OTLP), which read `board` and call `deployments`.

    Attributes:
        settings: as of the last start or reload.
        board: the newest state.
        metrics: what the service says of itself.
        deployments: by name.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        memory: ServiceMemory | None = None,
        consumers: Sequence[EvaluationConsumer] = (),
        metrics: OwnMetrics | None = None,
        rollouts: Rollouts | None = None,
    ) -> None:
        """Put the parts together; nothing is read before `start`.

        Args:
            settings: what to do.
            memory: remembers scrapes and verdicts; None forgets.
            consumers: called with every verdict besides.
            metrics: the service's own; None makes them.
            rollouts: marks rollouts of what is found; None marks none.

        Raises:
            UsageError: the settings contradict themselves, or a file they name cannot be used.

        """
        self.settings, self.metrics = settings, metrics or OwnMetrics()
        self.board = StateBoard(started=time.time())
        self.deployments: dict[str, Deployment] = {}
        self._memory = memory
        everyone = (*((memory,) if memory else ()), *consumers)
        self._evaluator = Evaluator(self.board, everyone, self.metrics)
        self._collector = Collector(settings.collect.threads, self._deliver, self.metrics)
        self._awake = WindowLru(MOST_AWAKE)
        self._jobs: dict[str, Job] = {}
        # What an earlier run left open. Whatever a reload makes begins without: all that lasts is taken up by then.
        self._left = _by_deployment(memory.open_incidents() if memory else ())
        self._written = settings
        self._found: Sequence[FoundServer] = ()
        self._groups: Mapping[str, str] = {}
        self._rollouts = rollouts
        self._origins: Mapping[str, FoundServer] = {}
        self._planning = threading.Lock()
        self._plan(settings)
        if not settings.discovery.sources:
            self._end_left()

    def start(self) -> None:
        """Begin to read and to judge."""
        self._evaluator.start()
        self._collector.set_jobs(self._jobs.values())
        self._collector.start()

    def reload(self, settings: Settings) -> None:
        """Take up changed servers and deployments; those that did not change go on as they are.

        Raises:
            UsageError: the new settings cannot be used; the old ones stay.

        """
        with self._planning:
            self._change(settings, self._found, self._groups)

    def take_up(self, found: Sequence[FoundServer], groups: Mapping[str, str], *, settled: bool) -> None:
        """Watch found servers beside those of the settings, and no others that were found before.

        Args:
            found: the servers.
            groups: the deployment of each by its place.
            settled: whether these are all: incidents of what an earlier run watched and nobody names any more end.

        Raises:
            UsageError: a file of their credentials cannot be used; what was watched stays.

        """
        with self._planning:
            if (found, groups) != (self._found, self._groups):
                self._change(self._written, found, groups)
            if settled:
                self._end_left()
            if self._rollouts is not None:
                own = {url: one.name for one in self.settings.deployment for url in one.servers}
                watched = {url: name for url, name in own.items() if name in self.deployments}
                self._rollouts.look(found, watched)

    def _change(self, written: Settings, found: Sequence[FoundServer], groups: Mapping[str, str]) -> None:
        jobs_before, deployments_before = self._jobs, self.deployments
        settings = with_found(written, found, groups)
        self._plan(settings)
        self._origins = {one.server.url: one for one in found}
        self._written, self._found, self._groups, self.settings = written, found, groups, settings
        self._collector.set_jobs(self._jobs.values())
        self._let_go(jobs_before, deployments_before)

    def _end_left(self) -> None:
        """End what an earlier run left open of deployments that are watched no longer."""
        self._end([self._unwatched(name) for name in list(self._left)])

    def _let_go(self, jobs_before: Mapping[str, Job], deployments_before: Mapping[str, Deployment]) -> None:
        """End the deployments that the settings no longer name, and forget servers that left one that stays."""
        self._end([one for name, one in deployments_before.items() if name not in self.deployments])
        for key, job in jobs_before.items():
            now = self._jobs.get(key)
            if now is None:
                self.metrics.forget_server(key)
            stays = self.deployments.get(job.deployment)
            left = now is None or now.deployment != job.deployment
            if left and stays is not None and isinstance(job.reader, TritonReader):
                stays.give(Gone(job.reader.server))

    def _end(self, deployments: Iterable[Deployment]) -> None:
        for deployment in deployments:
            deployment.ended = True
            self._evaluator.notify(deployment)

    def stop(self) -> None:
        """End the rounds under way, judge what came, and let go of everything."""
        self._collector.stop()
        self._evaluator.stop()

    def _plan(self, settings: Settings) -> None:
        planned = own(settings)
        wanted = {job.key: job for job in jobs(settings, planned)}
        kept = {
            key: self._jobs[key] for key, job in wanted.items() if key in self._jobs and _same(self._jobs[key], job)
        }
        made = {name: self._brought_up(settings, one) for name, one in planned.items()}
        gone = set(self.deployments) - set(made)
        self._jobs, self.deployments = with_machine({**wanted, **kept}), made
        self.board.forget(set(self.board.read().targets) - set(wanted), gone)

    def _brought_up(self, settings: Settings, planned: Planned) -> Deployment:
        """Return a deployment that is there as the settings want it now, else a new one."""
        known = self.deployments.get(planned.name)
        if known is None:
            return self._deployment(settings, planned)
        known.interval, known.objective = planned.interval, planned.objective
        known.allow_spans(_room_for_spans(settings, planned))
        known.book.open_after = settings.incidents.open_after
        known.book.close_after = settings.incidents.close_after
        return known

    def _deployment(self, settings: Settings, planned: Planned) -> Deployment:
        seconds = max(settings.collect.window, 4 * planned.interval)
        window = RollingWindow(planned.name, seconds, max_spans=_room_for_spans(settings, planned))
        rules = settings.incidents
        book = IncidentBook(planned.name, open_after=rules.open_after, close_after=rules.close_after)
        made = Deployment(
            planned.name,
            window,
            book,
            self.metrics,
            interval=planned.interval,
            objective=planned.objective,
            blind_spots=lambda: self._blind_spots(planned.name),
            addresses=lambda: self._addresses(planned.name),
            awake=self._awake,
        )
        if self._memory is not None:
            since = time.time() - window.seconds
            made.resume(self._memory.recent_scrapes(planned.name, since), self._left.pop(planned.name, ()))
        return made

    def _unwatched(self, name: str) -> Deployment:
        """Return a deployment that the settings name no longer, with the incidents that are to be closed."""
        window, book = RollingWindow(name, self.settings.collect.window), IncidentBook(name)
        made = Deployment(name, window, book, self.metrics, interval=self.settings.collect.interval)
        made.resume((), self._left.pop(name))
        return made

    def _blind_spots(self, deployment: str) -> list[BlindSpot]:
        readers = [job.reader for job in self._jobs.values() if job.deployment == deployment]
        return [spot for reader in readers if isinstance(reader, TritonReader) for spot in reader.blind_spots]

    def _addresses(self, deployment: str) -> dict[str, str]:
        """Return where the HTTP APIs of a deployment's servers are, by the servers' names."""
        readers = [job.reader for job in self._jobs.values() if job.deployment == deployment]
        servers = [one.found for one in readers if isinstance(one, TritonReader) and one.found is not None]
        return {one.name: one.http_url for one in servers if one.http_url}

    def _deliver(self, job: Job, made: Round) -> None:
        if isinstance(job.reader, MachineReader):
            for name, scrapes in job.reader.shares.items():
                self._give(name, scrapes)
            return
        deployment = self.deployments.get(job.deployment)
        if deployment is None:
            return
        if job.counts:
            self._show(job, made)
        self._give(job.deployment, made.scrapes)
        if made.scrapes and job.counts:
            self._evaluator.notify(deployment)

    def _give(self, name: str, scrapes: Sequence[Scrape]) -> None:
        deployment = self.deployments.get(name)
        if deployment is None:
            return  # it was let go of meanwhile
        for scrape in scrapes:
            deployment.give(scrape)
            if self._memory is not None:
                self._memory.consume_scrape(name, scrape)

    def _show(self, job: Job, made: Round) -> None:
        before = self.board.read().targets.get(job.key)
        up = not made.error
        reader = job.reader
        server = reader.server if isinstance(reader, TritonReader) else job.key
        spots = reader.blind_spots if isinstance(reader, TritonReader) else ()
        origin = self._origins.get(job.key)
        target = TargetState(
            server=server,
            url=job.key,
            deployment=job.deployment,
            up=up,
            interval=job.interval,
            last_round=made.at,
            last_success=made.at if up else before.last_success if before else None,
            took=made.took,
            failures=job.failures,
            error=made.error or unread_part(made.scrapes, spots),
            served=self._served(job.deployment, server) if up else before.served if before else None,
            found_by=origin.source if origin else "",
            labels=origin.shown_labels if origin else {},
        )
        self.board.publish_target(target)
        if before is None or before.up != up:
            _log_reached(target, before)

    def _served(self, deployment: str, server: str) -> bool | None:
        """Return whether a server had requests in the newest verdict's window; None before the first one."""
        stated = self.board.read().evaluations.get(deployment)
        return any(one.server == server for one in stated.explanation.anatomy) if stated is not None else None


def _room_for_spans(settings: Settings, planned: Planned) -> int:
    """Return how many spans a deployment may keep: each server has the same share of all."""
    share = settings.collect.max_spans // max(len(settings.server), 1)
    return max(FEWEST_SPANS, share) * len(planned.urls)


def _log_reached(target: TargetState, before: TargetState | None) -> None:
    named = {"deployment": target.deployment, "server": target.server, "url": target.url}
    if not target.up:
        message = "server lost" if before else "server not found"
        log_event(log, LoggedEvent.SERVER_LOST, message, **named, err=target.error)
        return
    away = None
    if before is not None and before.last_success is not None and target.last_round is not None:
        away = round(target.last_round - before.last_success, 3)
    log_event(log, LoggedEvent.SERVER_FOUND, "server found", **named, away_seconds=away)


def _by_deployment(incidents: Iterable[Incident]) -> dict[str, list[Incident]]:
    found: dict[str, list[Incident]] = {}
    for one in incidents:
        found.setdefault(one.deployment, []).append(one)
    return found


def _same(old: Job, new: Job) -> bool:
    if (old.deployment, old.interval, type(old.reader)) != (new.deployment, new.interval, type(new.reader)):
        return False
    if isinstance(old.reader, TritonReader) and isinstance(new.reader, TritonReader):
        return (old.reader.options, old.reader.repository) == (new.reader.options, new.reader.repository)
    return True
