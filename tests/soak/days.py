"""A month of a service in some minutes: one server's rounds by a clock of their own, through everything that remembers.

    python -m tests.soak.days [--days 30] [--interval 120]

Every other day the server queues, and every night it restarts. Prints memory and disk by day; exits with 1 when one
of them goes on growing after what is kept has begun to be deleted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.service.deployment import Deployment, RoutedSpans
from diagnostics.service.http.metrics import Exposition, format_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import StateBoard
from diagnostics.store.history import History
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import Scrape
from diagnostics.wire.trace_export import decode_spans
from tests.builders import START
from tests.builders_traces import Leg, ensemble_trace, export, trace_id
from tests.store.lived import FAST, NAME, QUEUED, opened, rounds

DAY = 86_400.0
KEEP_RAW_DAYS, KEEP_SIGNALS_DAYS = 2, 4
LEGS = (Leg(model=FAST.name, compute=0.001), Leg(model=QUEUED.name, queue=0.1, compute=0.02))
# What may wait for the disk before the next round is made: the simulated clock is faster than any disk.
MOST_WAITING = 500
MEGABYTES_OF_GROWTH, SHARE_OF_GROWTH = 20.0, 0.25


class Clock:
    """Stands for the module `time` where what is remembered is kept for a while."""

    def __init__(self, now: float) -> None:
        self.now = self._begun = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - self._begun


@dataclass(frozen=True, slots=True)
class Day:
    """What a service took at the end of a day, and what it had seen by then."""

    megabytes: float
    disk: int
    incidents: int
    dropped: float


class Service:
    """The parts of a service that remember, without those that wait."""

    def __init__(self, folder: Path, clock: Clock, interval: float) -> None:
        self.clock, self.metrics, self.folder = clock, OwnMetrics(), folder
        keep = {"keep_raw": KEEP_RAW_DAYS * DAY, "keep_signals": KEEP_SIGNALS_DAYS * DAY, "segment": 10 * interval}
        self.history: History = opened(folder, self.metrics, **keep)
        self.board, self.page = StateBoard(started=clock.now), Exposition(self.metrics, 5 * interval, clock.time)
        window = RollingWindow(NAME, 5 * interval, max_spans=1_000)
        book = IncidentBook(NAME, close_after=5 * interval)
        self.deployment = Deployment(NAME, window, book, self.metrics, interval=interval)
        self.opened = 0

    def live(self, scrapes: list[Scrape], number: int) -> None:
        """Go through one round, as collector, receiver and evaluator do."""
        at = self.clock.now = scrapes[0].at
        for scrape in scrapes:
            self.deployment.give(scrape)
            self.history.consume_scrape(NAME, scrape)
        spans = decode_spans(export(ensemble_trace(trace_id(number), at - START, LEGS))).spans
        self.deployment.give(RoutedSpans(spans, at))
        self.deployment.take_in()
        evaluation = self.deployment.evaluate()
        self.opened += sum(change.kind.value == "opened" for change in evaluation.changes)
        self.board.publish_evaluation(evaluation, self.deployment.book.open)
        self.page.update(self.board.read())
        self.page.page(format_of(""))
        self.page.render()
        self.history.consume(evaluation)
        self._wait(MOST_WAITING)

    def day(self) -> Day:
        self._wait(0)
        files = (path for path in self.folder.rglob("*") if path.is_file())
        dropped = self._sum("diag_dropped")
        return Day(resident_megabytes(), sum(map(size_of, files)), self.opened, dropped)

    def _wait(self, most: int) -> None:
        deadline = time.monotonic() + 30
        while self._sum("diag_queue_length") > most and time.monotonic() < deadline:
            time.sleep(0.005)

    def _sum(self, name: str) -> float:
        families = (one for one in self.metrics.registry.collect() if one.name == name)
        return sum(sample.value for one in families for sample in one.samples if not sample.name.endswith("_created"))


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it was packed meanwhile
        return 0


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def lived(folder: Path, days: int, interval: float) -> Iterator[Day]:
    """Yield what a service takes at the end of each day."""
    begin = time.time() - days * DAY
    clock = Clock(begin)
    with mock.patch("diagnostics.store.packing.time", clock):
        service = Service(folder, clock, interval)
        service.history.start()
        for day in range(days):
            models = (FAST, QUEUED) if day % 2 == 0 else (FAST,)
            of_day = rounds(
                round(DAY / interval), begin=begin + day * DAY, interval=interval, steady=day * DAY, models=models
            )
            for number, scrapes in enumerate(of_day):
                service.live(scrapes, day * 100_000 + number)
            yield service.day()
        service.history.stop()


def growth(days: list[Day]) -> list[str]:
    """Return what went on growing after retention began; nothing where too few days were lived."""
    settled = KEEP_SIGNALS_DAYS + 2
    if len(days) < 2 * settled:
        return []
    middle, last = days[settled:-settled], days[-settled:]
    found = []
    if max(one.megabytes for one in last) > max(one.megabytes for one in middle) + MEGABYTES_OF_GROWTH:
        found.append("memory")
    if max(one.disk for one in last) > max(one.disk for one in middle) * (1 + SHARE_OF_GROWTH):
        found.append("disk")
    return found + (["dropped from queues"] if last[-1].dropped else [])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--days", type=int, default=30)
    options.add_argument("--interval", type=float, default=120.0)
    requested = options.parse_args()
    days = list[Day]()
    with tempfile.TemporaryDirectory() as folder:
        for day in lived(Path(folder), requested.days, requested.interval):
            days.append(day)
            print(
                f"day {len(days):>3}: {day.megabytes:6.1f} MB of memory, {day.disk / 1e6:7.2f} MB on disk, "
                f"{day.incidents} incidents, {day.dropped:.0f} dropped",
                flush=True,
            )
    found = growth(days)
    print(f"went on growing: {', '.join(found)}" if found else "memory is flat and disk is bounded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
