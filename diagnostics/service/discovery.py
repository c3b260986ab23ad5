"""Finds servers all the time: asks each source on its own schedule, groups what it names, and has it watched."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from diagnostics.errors import DiagError, UsageError
from diagnostics.service.found_servers import (
    FoundServer,
    Served,
    found_server,
    group_named,
    group_of,
    merged,
    served_by,
)
from diagnostics.service.listening import parse_listen
from diagnostics.service.own.metrics import FaultPart, OwnMetrics
from diagnostics.service.plan import options_of
from diagnostics.service.service import Service
from diagnostics.settings.tree import (
    CollectSettings,
    DnsDiscoverySettings,
    FileDiscoverySettings,
    FoundSettings,
    HttpDiscoverySettings,
    KubernetesDiscoverySettings,
    PrometheusDiscoverySettings,
    ServerSettings,
    Settings,
    UrlDiscoverySettings,
)
from exporters.sources import prometheus_targets
from exporters.sources.access import SourceOptions, secret_of
from exporters.sources.dns_targets import DnsTargets
from exporters.sources.file_targets import FileTargets
from exporters.sources.http_targets import MOST_BYTES, HttpTargets
from exporters.sources.kubernetes_targets import KubernetesTargets, PodQuery
from exporters.sources.prometheus_targets import PrometheusTargets
from exporters.sources.target_list import FoundTarget, TargetList, TargetSource, lines_of_refused

log = logging.getLogger(__name__)
# A first look costs as much as ten rounds: few at once, so that they hold up nothing.
LOOKS_AT_ONCE = 4
# A model that was loaded or unloaded moves a server to another deployment: a rare event, and a look costs ten rounds.
LOOK_AGAIN = 600.0
RETRY = 30.0
# What is found while others are looked at is watched together, as each change is a new plan. One that has waited for
# longer than a minute is watched by itself until it was looked at.
GATHER, PATIENCE = 3.0, 60.0
_PAUSE = 0.2
AFTER_FAILURE = 5.0
"""Seconds before a source that waits for news by itself is tried again."""
_PLAN = "watching found servers"
Look = Callable[[ServerSettings, CollectSettings], Served]


SourceWithSettings = tuple[TargetSource, FoundSettings]


def sources_of(settings: Settings) -> list[SourceWithSettings]:
    """Return what asks each source of discovery, with the settings of what it finds.

    Raises:
        UsageError: two sources are the same, or a file of credentials or certificates cannot be used.

    """
    found: dict[str, SourceWithSettings] = {}
    for one in settings.discovery.sources:
        source = _source(one)
        if source.name in found:
            raise UsageError("is there twice", where=f"discovery: {source.name}", hint="write it once")
        found[source.name] = (source, one)
        # A file that its servers would need is missed now, not when the first one is found.
        options_of(found_server(FoundTarget(url="http://localhost", place=""), "", one).server, settings.collect)
    return list(found.values())


def _source(settings: FoundSettings) -> TargetSource:
    match settings:
        case FileDiscoverySettings():
            return FileTargets(settings.files, scheme=settings.scheme, refresh=settings.refresh)
        case HttpDiscoverySettings():
            options = _options(settings, MOST_BYTES)
            return HttpTargets(settings.url, options, scheme=settings.scheme, refresh=settings.refresh)
        case PrometheusDiscoverySettings():
            options = _options(settings, prometheus_targets.MOST_BYTES)
            return PrometheusTargets(settings.url, settings.jobs, options, refresh=settings.refresh)
        case DnsDiscoverySettings():
            return _dns(settings)
        case KubernetesDiscoverySettings():
            return _kubernetes(settings)
    raise AssertionError(settings)


def _dns(settings: DnsDiscoverySettings) -> TargetSource:
    nameserver = parse_listen(settings.nameserver, "discovery.dns.nameserver") if settings.nameserver else None
    return DnsTargets(
        settings.names,
        settings.type,
        settings.port,
        nameserver=(nameserver.host, nameserver.port) if nameserver else None,
        timeout=settings.timeout,
        scheme=settings.scheme,
        refresh=settings.refresh,
    )


def _kubernetes(settings: KubernetesDiscoverySettings) -> TargetSource:
    query = PodQuery(
        namespace=settings.namespace,
        selector=settings.selector,
        service=settings.service,
        port=settings.port,
        scheme=settings.scheme,
    )
    return KubernetesTargets(query, kubeconfig=settings.kubeconfig, context=settings.context, timeout=settings.timeout)


def _options(settings: UrlDiscoverySettings, most: int) -> SourceOptions:
    """Return how a source is asked; its credentials go to it alone."""
    options = SourceOptions(
        timeout=settings.timeout,
        bearer_token=secret_of(settings.bearer_token_file, "bearer token"),
        basic=secret_of(settings.basic_auth_file, "user and password"),
        ca_file=settings.ca_file,
        insecure=settings.insecure,
        max_body=most,
        credentials_by="bearer_token_file or basic_auth_file of this source",
    )
    options.tls()
    return options


class Follower:
    """Asks one source in a thread of its own; while it fails, what it named before stays.

    Attributes:
        name: the source's.
        found: what it named last; None before its first answer.

    """

    def __init__(
        self,
        source: TargetSource,
        settings: FoundSettings,
        metrics: OwnMetrics,
        changed: Callable[[], None],
        before: Follower | None = None,
    ) -> None:
        """Begin to ask; until the first answer, what was found by the same source before stays."""
        self.name, self.settings = source.name, settings
        self.found: list[FoundServer] | None = None
        if before is not None and before.found is not None:
            self.found = [found_server(one.target, self.name, settings) for one in before.found]
        self._source, self._metrics, self._changed = source, metrics, changed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"discover {source.name}"[:60], daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. Its metrics and faults are forgotten; a question under way is not waited for."""
        self._stopped.set()
        self._metrics.faults.works(self._finding)
        self._metrics.faults.works(self._entries)
        for gauge in (self._metrics.discovered, self._metrics.discovery_refused):
            with contextlib.suppress(KeyError):
                gauge.remove(self.name)

    @property
    def _finding(self) -> str:
        return f"finding servers by {self.name}"

    @property
    def _entries(self) -> str:
        return f"reading entries of {self.name}"

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause = 0.0
            try:
                self._take(self._source.find())
            except DiagError as error:
                pause = AFTER_FAILURE
                self._fail(str(error))
            except Exception as error:
                pause = AFTER_FAILURE
                log.exception("finding servers by %s", self.name)
                self._fail(type(error).__name__)
            self._stopped.wait(max(self._source.refresh, pause))

    def _fail(self, reason: str) -> None:
        if not self._stopped.is_set():
            self._metrics.errors.labels("discovery").inc()
            self._metrics.faults.failed(self._finding, reason, FaultPart.DISCOVERY)

    def _take(self, listed: TargetList) -> None:
        found = [found_server(target, self.name, self.settings) for target in listed.targets]
        if self._stopped.is_set():
            return
        self._metrics.faults.works(self._finding)
        self._metrics.discovered.labels(self.name).set(len(found))
        self._metrics.discovery_refused.labels(self.name).set(listed.refused_count)
        if listed.refused_count:
            self._metrics.faults.failed(self._entries, "; ".join(lines_of_refused(listed)), FaultPart.DISCOVERY)
        else:
            self._metrics.faults.works(self._entries)
        if found != self.found:
            log.info("servers named by %s: %d", self.name, len(found))
            self.found = found
            self._changed()


class Discovery:
    """Has the service watch what all sources name, until it is stopped. One part of the daemon."""

    def __init__(self, settings: Settings, service: Service, metrics: OwnMetrics, look: Look = served_by) -> None:
        """Take up the settings; nothing is asked before `start`.

        Args:
            settings: names the sources.
            service: watches what is found.
            metrics: the service's own.
            look: returns what a server serves.

        Raises:
            UsageError: a file that the settings name cannot be used.

        """
        self._settings, self._service, self._metrics, self._look = settings, service, metrics, look
        self._sources = sources_of(settings)
        self._followers: list[Follower] = []
        self._changed = threading.Condition()
        self._news, self._stopped = True, False
        self._looks: dict[str, Future[Served]] = {}
        self._groups: dict[str, str] = {}
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._names: dict[str, str] = {}
        self._gathered = 0.0
        self._pool = ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="look")
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)

    def start(self) -> None:
        """Begin to ask all sources."""
        self._follow()
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for one in self._followers:
            one.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._thread.join()

    def reload(self, settings: Settings) -> None:
        """Have the service take up changed settings, sources included.

        Raises:
            UsageError: the new settings cannot be used; the old ones stay.

        """
        sources = sources_of(settings)
        self._service.reload(settings)
        with self._changed:
            before, self._settings = self._settings.discovery, settings
            if settings.discovery != before:
                self._sources = sources
                self._follow()
        self._wake()

    def _follow(self) -> None:
        before = {one.name: one for one in self._followers}
        for known in before.values():
            known.stop()
        self._followers = [
            Follower(source, one, self._metrics, self._wake, before.get(source.name)) for source, one in self._sources
        ]

    def _wake(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._news or self._stopped, self._patience())
                if self._stopped:
                    return
                self._news = False
            try:
                self._watch()
            except DiagError as error:
                self._metrics.errors.labels("discovery").inc()
                self._metrics.faults.failed(_PLAN, str(error), FaultPart.DISCOVERY)
            except Exception:
                self._metrics.errors.labels("discovery").inc()
                log.exception("watching found servers")

    def _patience(self) -> float:
        return _PAUSE if self._looks else RETRY / 2

    def _watch(self) -> None:
        """Have the service watch the servers that are found and were looked at."""
        settings, followers = self._settings, list(self._followers)
        discovery = settings.discovery
        named = [one for follower in followers for one in follower.found or ()]
        found, left_out = merged(named, discovery.max_servers)
        ready = self._looked_at(found)
        if ready is None:
            return
        groups = self._groups
        if label := discovery.group_by:
            groups = {one.place: group_named(one.target.labels.get(label, "")) for one in ready}
        settled = not self._looks and all(one.found is not None for one in followers)
        self._service.take_up(ready, dict(groups), settled=settled)
        if left_out:
            what = f"{left_out:,} servers are left out: discovery.max_servers is {discovery.max_servers:,}"
            self._metrics.faults.failed(_PLAN, what, FaultPart.DISCOVERY)
        else:
            self._metrics.faults.works(_PLAN)

    def _looked_at(self, found: Sequence[FoundServer]) -> Sequence[FoundServer] | None:
        """Return those whose name and models are known, or that did not answer; None while more are about to be.

        A server that does not answer is read as all others: once it does, it is looked at.
        """
        now, places = time.monotonic(), {one.place for one in found}
        for place in (set(self._since) | set(self._groups)) - places:
            for notes in (self._since, self._groups, self._due, self._names):
                notes.pop(place, None)
        self._learn(now)
        targets = self._service.board.read().targets.values()
        up = {one.url for one in targets if one.up}
        for one in found:
            place = one.place
            self._since.setdefault(place, now)
            answers = place not in self._due or place in self._groups or one.server.url in up
            if place not in self._looks and answers and self._due.get(place, now) <= now:
                self._looks[place] = self._pool.submit(self._look, one.server, self._settings.collect)
        if self._looks and now < self._gathered + GATHER:
            return None
        self._gathered = now
        # Several ports of one server are one server.
        first = {self._names[one.place]: one.place for one in reversed(found) if one.place in self._names}
        written = {one.server for one in targets if not one.found_by}
        known = {place for name, place in first.items() if name not in written}
        return [
            one for one in found if (one.place in known if one.place in self._names else self._is_late(one.place, now))
        ]

    def _is_late(self, place: str, now: float) -> bool:
        """Return whether a server was looked at in vain, or has waited for too long."""
        return place in self._due or now > self._since[place] + PATIENCE

    def _learn(self, now: float) -> None:
        """Take up what was looked at."""
        for place in [place for place, look in self._looks.items() if look.done()]:
            look = self._looks.pop(place)
            served = Served()
            try:
                served = look.result()
            except (DiagError, CancelledError) as error:
                log.warning("looking at %s: %s", place, error)
            except Exception:
                log.exception("looking at %s", place)
            if served.server:
                self._names[place] = served.server
            if served.models:
                self._groups[place] = group_of(served.models)
            self._due[place] = now + (LOOK_AGAIN if served.models else RETRY)
