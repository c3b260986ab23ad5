"""Notifies systemd of the service's state (sd_notify(3)), by a datagram to the socket that it names, if any."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from diagnostics.errors import UsageError
from diagnostics.service.component import Component
from diagnostics.service.discovery import Discovery
from diagnostics.service.own.metrics import FaultPart
from diagnostics.service.service import Service
from diagnostics.settings.load import Loaded


def notify_systemd(state: str) -> None:
    """Send `state`, as in `READY=1`; outside systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)


log = logging.getLogger(__name__)
_RELOADING = "reading the settings anew"


class Daemon:
    """Starts all parts, waits for signals, and stops them in reverse order.

    SIGTERM and SIGINT end it, with all writes finished; a second one ends it at once. SIGHUP reads the settings again.
    """

    def __init__(
        self,
        service: Service,
        parts: Sequence[Component],
        read_settings: Callable[[], Loaded],
        discovery: Discovery | None = None,
    ) -> None:
        self._service, self._parts, self._read_settings, self._discovery = service, parts, read_settings, discovery
        self._started_with = service.settings
        # Of all queues this is the one that a signal handler may put into while its own thread reads from it.
        self._signals: SimpleQueue[int] = SimpleQueue()

    def run(self) -> None:
        """Run until it is stopped."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._remember)
        running: list[Component] = []
        try:
            for part in (*self._parts, self._service, *([self._discovery] if self._discovery else ())):
                part.start()
                running.append(part)
            log.info("ready")
            notify_systemd("READY=1")
            self._wait()
        finally:
            notify_systemd("STOPPING=1")
            self._restore()
            for part in reversed(running):
                part.stop()
            log.info("ended")

    def _remember(self, number: int, _: object) -> None:
        self._signals.put(number)

    @staticmethod
    def _restore() -> None:
        # Whoever sends a second signal does not want to wait for the writes.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _wait(self) -> None:
        while (number := self._signals.get()) == signal.SIGHUP:
            self._reload()
        log.info("ending on %s", signal.Signals(number).name)

    def _reload(self) -> None:
        notify_systemd("RELOADING=1")
        try:
            settings = self._read_settings().settings
            for name in needing_restart(self._started_with.model_dump(), settings.model_dump()):
                log.warning("%s has changed, which takes a restart", name)
            taken_up = {name: getattr(settings, name) for name in RELOADED}
            (self._discovery or self._service).reload(self._started_with.model_copy(update=taken_up))
            self._service.metrics.faults.works(_RELOADING)
            log.info("settings read anew")
        except UsageError as error:
            self._service.metrics.errors.labels("reload").inc()
            self._service.metrics.faults.failed(_RELOADING, str(error), FaultPart.RELOAD)
            log.warning("the settings stay as they were: %s", error)
        notify_systemd("READY=1")


# What a reload takes up; all else is bound to files and sockets that were opened at the start.
RELOADED = frozenset({"server", "deployment", "discovery", "incidents", "probe"})


def needing_restart(old: dict[str, object], new: dict[str, object]) -> list[str]:
    """Return the sections that differ and are not taken up by a reload."""
    return sorted(name for name in new if name not in RELOADED and old.get(name) != new[name])
