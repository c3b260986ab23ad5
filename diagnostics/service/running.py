"""Puts the service together from its settings, and runs it."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from diagnostics.errors import UsageError
from diagnostics.service.allocation import FreedMemory, open_more_files, share_arenas
from diagnostics.service.attention import Attention
from diagnostics.service.component import Component
from diagnostics.service.daemon import Daemon
from diagnostics.service.discovery import Discovery, sources_of
from diagnostics.service.fleet import FleetBoard
from diagnostics.service.http.authentication import Authentication
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.page.pictures import IncidentPictures, can_draw
from diagnostics.service.http.server import WebServer, validate_listener
from diagnostics.service.incident_log import IncidentLog
from diagnostics.service.listening import parse_listen
from diagnostics.service.log_lines import log_to_stderr
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.observed import ObservedChanges, Rollouts
from diagnostics.service.otlp_intake import OtlpIntake
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.telemetry import own_telemetry, wanted
from diagnostics.service.plan import check_fleet, check_repositories, deployments, jobs, owns
from diagnostics.service.service import Service
from diagnostics.service.slo_keeper import SloKeeper
from diagnostics.settings.load import DEFAULT, Loaded, load
from diagnostics.settings.tree import Settings
from diagnostics.slo.reading import configured
from diagnostics.store.claim import claimed
from diagnostics.store.database import database_of, named_file
from diagnostics.store.history import History, check_directory, make_directory
from diagnostics.store.outbox import FileOutbox, MemoryOutbox
from diagnostics.units import span
from exporters.sinks.links import Links
from exporters.sources.access import read_secret

log = logging.getLogger(__name__)

# Windows hold millions of objects, and none of them in a cycle: looking for cycles as often as Python does by default
# costs as much as the verdicts.
_COLLECTION = (100_000, 20, 100)


def check(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], sources: Sequence[str]
) -> Iterator[str]:
    """Yield a line per setting: its name, its value, and where that comes from.

    Raises:
        UsageError: the settings cannot be used.
        CollectError: the history's directory can be neither made nor written.

    """
    loaded = _loaded(file, environment, flags, sources)
    jobs(loaded.settings, deployments(loaded.settings))
    check_repositories(loaded.settings)
    sources_of(loaded.settings)
    check_directory(loaded.settings.history.directory)
    database_of(loaded.settings.history, read_secret)
    validate_listener(loaded.settings.web)
    if loaded.settings.otlp.grpc_listen_address:
        _grpc().grpc_address(loaded.settings, Credentials(loaded.settings.web, read_secret))
    wanted(loaded.settings, environment)
    Notifier(loaded.settings, OwnMetrics(), MemoryOutbox(), environment=environment)
    configured(loaded)
    lines = list(loaded.lines())
    width = max(len(f"{name} = {value}") for name, value, _ in lines)
    for name, value, origin in lines:
        yield f"{f'{name} = {value}':<{width}}  # {origin}"


def run(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], sources: Sequence[str]) -> None:
    """Serve until it is stopped.

    Raises:
        UsageError: the settings cannot be used, or name no server.
        CollectError: the history cannot be opened, or the address is in use.

    """
    loaded = _watching(file, environment, flags, sources)
    settings = loaded.settings
    gc.set_threshold(*_COLLECTION)
    share_arenas()
    open_more_files()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C library writes lines for what a stranger sends
    log_to_stderr(settings.log.level, settings.log.format)
    make_directory(settings.history.directory)
    # Before anything is opened: whoever came second would change the files, and their form, below the first.
    with claimed(settings.history.directory, named_file(settings.history)):
        log.info("%s", history_line(loaded))
        if dead := links_line(settings):
            log.warning("%s", dead)
        service, parts = _assembled(loaded, environment)
        discovery = Discovery(settings, service, service.metrics)
        Daemon(service, parts, lambda: _watching(file, environment, flags, sources), discovery).run()


def history_line(loaded: Loaded) -> str:
    """Return where the history is kept, for how long, and how to change that: a start without settings writes, too."""
    history = loaded.settings.history
    origin = loaded.origins.get("history.directory", DEFAULT)
    database = "the database is history.database" if history.database else "the database lies there, too"
    return (
        f"history is kept in {history.directory.absolute()} ({origin}); {database}; recorded bodies for "
        f"{span(history.keep_raw)}, incidents and signals for {span(history.keep_signals)}; set history.directory or "
        "DIAG_HISTORY__DIRECTORY to keep it elsewhere"
    )


def links_line(settings: Settings) -> str:
    """Return that receivers cannot open the links that they get; empty without receivers, and where they may."""
    receivers = settings.alertmanager.urls or settings.webhook or settings.notification
    reached = settings.web.external_url or not parse_listen(settings.web.listen_address, "web.listen_address").loopback
    if reached or not receivers:
        return ""
    base = Links.of(settings.web).base
    return f"links in alerts and messages begin with {base}, which only this machine opens; set web.external_url"


def _assembled(loaded: Loaded, environment: Mapping[str, str]) -> tuple[Service, list[Component]]:
    settings, metrics = loaded.settings, OwnMetrics()
    telemetry = own_telemetry(settings, environment, metrics)
    history = History(settings.history, metrics, read_secret=read_secret, owns=partial(owns, settings.fleet))
    outbox = FileOutbox(settings.history.directory)
    attention = Attention(settings.maintenance, history.journal(), history.put_entry)
    telling = Notifier(
        settings,
        metrics,
        outbox,
        settle=history.settle,
        environment=environment,
        audible=attention.audible,
        draw=(lambda identity: pictures.png(identity)) if can_draw() else None,
    )
    objectives = SloKeeper(configured(loaded), history)
    metrics.registry.register(objectives)
    resumed = history.open_incidents()
    service = Service(
        settings,
        memory=history,
        consumers=[telling, objectives, IncidentLog(resumed), ObservedChanges(attention)],
        metrics=metrics,
        rollouts=Rollouts(attention),
    )
    # What is found later may have been watched before: its incidents go on.
    telling.resume(resumed, None if settings.discovery.sources else service.deployments)
    intake = OtlpIntake(service, metrics, settings.otlp, memory=history)
    fleet = FleetBoard(service, history.workers)
    context = WebContext(
        service=service,
        history=history.reader,
        settings=settings,
        metrics=metrics,
        intake=intake,
        objectives=objectives,
        attention=attention,
        fleet=fleet,
    )
    pictures = IncidentPictures(context)
    web = WebServer(context)
    grpc_server = _grpc_server(settings, intake, web.authentication, metrics)
    return service, [FreedMemory(), *telemetry, history, objectives, telling, fleet, web, *grpc_server]


def _grpc_server(
    settings: Settings, intake: OtlpIntake, authentication: Authentication, metrics: OwnMetrics
) -> list[Component]:
    if not settings.otlp.grpc_listen_address:
        return []
    return [_grpc().OtlpGrpcServer(settings, intake, authentication, metrics)]


def _grpc() -> ModuleType:
    try:
        return import_module("diagnostics.service.otlp_grpc")
    except ImportError:
        hint = "pip install 'triton-diagnostics[serve]'"
        raise UsageError("grpcio is not installed", where="otlp.grpc_listen_address", hint=hint) from None


def _watching(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], sources: Sequence[str]
) -> Loaded:
    """Return settings that name a server: a file that was cut short must not end what a service watches."""
    loaded = _loaded(file, environment, flags, sources)
    if not (loaded.settings.server or loaded.settings.discovery.sources):
        hint = "name one, or write [[server]] or [[discovery.file]]"
        raise UsageError("there is no server to watch", where="diag serve", hint=hint)
    return loaded


def _loaded(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], sources: Sequence[str]
) -> Loaded:
    loaded = load(file, environment, flags, servers=sources)
    check_fleet(loaded)
    return loaded
