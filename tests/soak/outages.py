"""Lets everything around a running `diag serve` fail, one after another, and looks whether the rest goes on.

    python -m tests.soak.outages [--seconds 60] [--alertmanager-seconds 600]

A full disk, a read-only one, an Alertmanager and a PostgreSQL that are away, a clock that is set ahead and back, and
a database that is overwritten while it is open. While each lasts: rounds and verdicts go on, the incident stays the
same, memory stays bounded, and the fault is on the page, in the API and in /metrics; after it: it is gone from there.
Mounts a small disk, which takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.collect.fake_triton import free_ports
from tests.service.notifications.alertmanagers import Alertmanager, Pager
from tests.service.notifications.hook import Hook, listening
from tests.soak.forking import Forks, forks
from tests.soak.killing import incidents, written
from tests.soak.moving import MovingTriton
from tests.soak.running import Serving, until
from tests.store.postgres import PASSWORD, Postgres, postgres

DISK_BYTES = 12 * 2**20
MOST_BYTES = 400e6
FULL = "No space left|disk is full"
Fault = contextlib.AbstractContextManager[object]


class CannotMount(Exception):
    """This machine lets nobody mount a disk here."""


@dataclass
class Watched:
    """A service with an incident that must survive everything."""

    service: Serving
    first: set[str]

    @classmethod
    def of(cls, service: Serving) -> Watched:
        until(lambda: incidents(service), 20, "an incident")
        return cls(service, incidents(service))

    def goes_on(self) -> None:
        """Wait for another round and another verdict, with the same incident."""
        before = self._counted()
        until(lambda: all(now > then for now, then in zip(self._counted(), before, strict=True)), 20, "another round")
        state = self.service.json("/api/v1/state")
        assert {one["id"] for one in state["incidents"]} == self.first
        assert self.service.resident_bytes() < MOST_BYTES

    def endures(self, fault: Fault, *patterns: str, seconds: float = 0.0) -> None:
        """Let a fault last for so many seconds at least; it is told of in words that the patterns match."""
        with fault:
            for pattern in patterns:
                self.notices(pattern)
            end = time.monotonic() + seconds
            self.goes_on()
            while time.monotonic() < end:
                self.goes_on()
        for pattern in patterns:
            until(lambda pattern=pattern: not self._reported(pattern), 40, f"the end of {pattern}")
        self.goes_on()

    def notices(self, pattern: str, patience: float = 30.0) -> None:
        """Wait until something is told of."""
        until(lambda: self._reported(pattern), patience, f"word of {pattern}")
        print(self._reported(pattern), flush=True)

    def _counted(self) -> tuple[float, float]:
        rounds = self.service.samples("diag_rounds_total")
        ok = sum(count for labels, count in rounds.items() if 'outcome="ok"' in labels)
        return ok, sum(self.service.samples("diag_evaluation_seconds_count").values())

    def _reported(self, pattern: str) -> str:
        """Return what is said of a fault in the API, if it is on the page and in the metrics as well."""
        for one in self.service.json("/api/v1/state")["faults"]:
            stated = f"{one['what']}: {one['reason']}"
            if re.search(pattern, stated):
                page = html.unescape(self.service.ask("/").decode())
                counted = self.service.samples("diag_faults")[""] >= 1
                return stated if counted and one["reason"] in page and f"{one['what']} fails" in page else ""
        return ""


@contextlib.contextmanager
def mounted(place: Path, size: int = DISK_BYTES, options: str = "") -> Iterator[Path]:
    """Mount an empty disk of so many bytes.

    Raises:
        CannotMount: nobody may, here.

    """
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise CannotMount(f"no disk can be mounted at {place}: that takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill a disk to its last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (2**20, 2**12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
    yield
    filler.unlink()


@contextlib.contextmanager
def away(stop: Callable[[], None], start: Callable[[], None]) -> Iterator[None]:
    stop()
    yield
    start()


@contextlib.contextmanager
def refusing(hook: Hook) -> Iterator[None]:
    hook.status = 503
    yield
    hook.status = 200


def overwrite(database: Path) -> None:
    """Write nonsense over an open database."""
    for file in (database, database.with_name(database.name + "-wal")):
        size = file.stat().st_size
        with file.open("r+b") as stream:
            stream.write(b"nonsense" * (size // 8))


def faults_of_the_machine(folder: Path, program: Forks, triton: MovingTriton) -> None:
    """Let the disk be full and every receiver refuse at once, and then the clock be set; a matter of seconds."""
    with listening() as hook, mounted(folder) as disk:
        settings = written(disk, free_ports(1), triton.url, hook.url)
        with program.serving(settings) as service, contextlib.ExitStack() as faults:
            watched = Watched.of(service)
            faults.enter_context(full(disk))
            faults.enter_context(refusing(hook))
            watched.endures(faults, FULL, f"{hook.url}: HTTP 503")
            set_clock(watched, program)
            assert service.end() == 0


def set_clock(watched: Watched, program: Forks) -> None:
    """Set the clock ahead, back, and right again."""
    for ahead, way in ((7200.0, "ahead by 7200"), (-3600.0, "back by 10800"), (0.0, "ahead by 3600")):
        program.set_clock(ahead)
        watched.notices(f"the clock was set {way}")
    watched.goes_on()


def long_faults_of_the_disk(folder: Path, program: Forks, triton: MovingTriton, seconds: float) -> None:
    """Let the disk be full, then read-only, and its database overwritten."""
    with listening() as hook, mounted(folder) as disk:
        settings = written(disk, free_ports(1), triton.url, hook.url)
        settings.write_text(settings.read_text().replace("[history]\n", '[history]\nsegment = "10s"\n'))
        with program.serving(settings) as service:
            watched = Watched.of(service)
            watched.endures(full(disk), FULL, seconds=seconds)
            watched.endures(mounted(disk / "data", options=",ro"), "Read-only", seconds=seconds)
            overwrite(disk / "data" / "history.db")
            watched.notices("opening the database", 120.0)  # with the next minute that is written
            until(lambda: incidents(service) == watched.first, 10, "the same incident in a new database")
            assert list((disk / "data").glob("history.db.damaged-*"))
            assert service.end() == 0


def faults_of_alertmanager(folder: Path, program: Forks, triton: MovingTriton, seconds: float) -> None:
    """Let a real Alertmanager be away, from the start on and later."""
    with Pager().running() as pager:
        one = Alertmanager(folder / "alertmanager", free_ports(1), pager)
        settings = written(folder, free_ports(1), triton.url, one.url)
        settings.write_text(settings.read_text().partition("[[webhook]]")[0])
        try:
            with program.serving(settings) as service:
                watched = Watched.of(service)
                watched.endures(away(lambda: None, one.start), "refused")
                until(lambda: len(one.alerts()) == len(watched.first), 20, "the alert")
                before = {key: alert["startsAt"] for key, alert in one.alerts().items()}
                watched.endures(away(one.stop, one.start), "refused", seconds=seconds)
                until(lambda: one.alerts(), 20, "the alert again")
                assert {key: alert["startsAt"] for key, alert in one.alerts().items()} == before
                assert service.end() == 0
        finally:
            one.stop(signal.SIGKILL)


def faults_of_postgresql(
    folder: Path, program: Forks, triton: MovingTriton, server: Postgres, seconds: float = 0.0
) -> None:
    """Let PostgreSQL be away."""
    settings, secret = written(folder, free_ports(1), triton.url, "http://127.0.0.1:1"), folder / "password"
    secret.write_text(PASSWORD)
    text = settings.read_text().partition("[alertmanager]")[0]
    database = f'[history]\ndatabase = "{server.url}"\ndatabase_password_file = "{secret}"\n'
    settings.write_text(text.replace("[history]\n", database))
    with program.serving(settings) as service:
        watched = Watched.of(service)
        watched.endures(away(server.stop, server.start), "writing the history", seconds=seconds)
        until(lambda: incidents(service) == watched.first, 10, "the incident in the database")
        assert not any(service.samples("diag_dropped_total").values())
        assert service.end() == 0
    assert PASSWORD not in settings.with_suffix(".log").read_text()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60.0, help="that each fault lasts")
    options.add_argument("--alertmanager-seconds", type=float, default=600.0, help="that Alertmanager is away")
    requested = options.parse_args()
    longest = 2 * (8 * requested.seconds + requested.alertmanager_seconds) + 600.0
    with (
        tempfile.TemporaryDirectory() as folder,
        MovingTriton(longest).running() as triton,
        forks() as program,
        postgres() as server,
    ):
        places = [Path(folder) / name for name in ("disk", "database", "receivers")]
        for place in places:
            place.mkdir()
        faults_of_the_machine(places[0], program, triton)
        long_faults_of_the_disk(places[0], program, triton, requested.seconds)
        faults_of_postgresql(places[1], program, triton, server, requested.seconds)
        faults_of_alertmanager(places[2], program, triton, requested.alertmanager_seconds)
    print("all of it was told of and survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
