"""What the service costs with 200 servers of 960 samples every 15 s and 10,000 spans/s.

    python -m tests.soak.load [--minutes 10] [--servers 200] [--spans 10000] [--cpus 0,1]

Servers and senders are processes of their own. Prints what was seen beside its target; exits with 1 beyond one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.collect.fake_triton import free_ports
from tests.soak import fleet
from tests.soak.running import ROOT, Serving, environment, serving, until

MOST_CORES, MOST_BYTES = 1.0, 600e6
SECONDS_BETWEEN_LOOKS = 5.0
# What a page shows that is asked for just before the next round: a third of an interval is left to read and judge it.
OLDEST = 4 / 3 * fleet.INTERVAL
# A Prometheus that reads the service's metrics does so about as often.
LOOKS_BETWEEN_PAGES = 3


@contextlib.contextmanager
def pinned(cpus: set[int]) -> Iterator[None]:
    """Have programs that are started meanwhile run on these processors alone; on all when none is named."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running_fleet(servers: int, reads: int) -> Iterator[None]:
    """Run the fleet in a process of its own."""
    command = [sys.executable, "-m", "tests.soak.fleet", str(servers), str(reads)]
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def sending(url: str, servers: int, rate: int, into: dict[str, int]) -> Iterator[None]:
    """Send spans meanwhile; what was sent is then told `into`."""
    if not rate:
        yield
        return
    command = [sys.executable, "-m", "tests.soak.sender", url, str(servers), str(rate)]
    with subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield
            into |= json.loads(process.communicate(timeout=60)[0])
        finally:
            process.kill()


def settings(folder: Path, servers: int, port: int) -> Path:
    listed = "".join(f'[[server]]\nurl = "http://{fleet.address(n)}:{fleet.API}"\n' for n in range(servers))
    file = folder / "diag.toml"
    file.write_text(f'[web]\nlisten_address = "127.0.0.1:{port}"\n[history]\ndirectory = "{folder}/data"\n{listed}')
    return file


@dataclass(slots=True)
class Seen:
    """What a service was seen at: the cores of each look, the most memory, every lag, bytes written per second.

    Of its metrics page, for how long each answer was awaited, and how old the counters of each server on it were.
    """

    cores: list[float] = field(default_factory=list)
    resident: int = 0
    lags: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    written: float = 0.0

    @property
    def mean_cores(self) -> float:
        return statistics.fmean(self.cores)


def watched(service: Serving, seconds: float) -> Seen:
    """Look at a service for so many seconds."""
    seen, begun = Seen(), time.monotonic()
    before, written, looks = service.processor_seconds(), service.written_bytes(), 0
    while time.monotonic() < begun + seconds:
        at = time.monotonic()
        time.sleep(SECONDS_BETWEEN_LOOKS)
        used = service.processor_seconds()
        seen.cores.append((used - before) / (time.monotonic() - at))
        before, looks = used, looks + 1
        seen.resident = max(seen.resident, service.resident_bytes())
        if looks % LOOKS_BETWEEN_PAGES == 0:
            seen.lags += service.samples("diag_evaluation_lag_seconds").values()
            asked, clock = time.monotonic(), time.time()
            read = service.samples("diag_statistics_read_timestamp_seconds").values()
            seen.pages.append(time.monotonic() - asked)
            seen.ages += [clock - one for one in read]
    seen.written = (service.written_bytes() - written) / (time.monotonic() - begun)
    return seen


def counted(service: Serving, name: str, label: str) -> dict[str, float]:
    """Return one of the service's own counters, summed by one of its labels."""
    found: dict[str, float] = {}
    for labels, value in service.samples(name).items():
        which = labels.partition(f'{label}="')[2].partition('"')[0]
        found[which] = found.get(which, 0.0) + value
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: what was seen, how it is written, and whether that is within the target."""

    what: str
    seen: str
    target: str = ""
    met: bool = True

    def __str__(self) -> str:
        return f"{self.what:<34}{self.seen:>14}  {self.target:<12}{'' if self.met else 'MISSED'}".rstrip()


def table(seen: Seen, service: Serving) -> list[Line]:
    """Return what was seen of a service that still runs."""
    rounds, spans = counted(service, "diag_rounds_total", "outcome"), counted(service, "diag_spans_total", "outcome")
    missed = rounds.get("failed", 0) + rounds.get("skipped", 0)
    dropped = sum(counted(service, "diag_dropped_total", "queue").values())
    errors = sum(counted(service, "diag_errors_total", "part").values())
    lost = spans.get("refused", 0) + spans.get("corrupt", 0) + spans.get("unassigned", 0)
    late = max(seen.lags, default=float("inf"))
    cores = statistics.quantiles(seen.cores, n=20)[-1] if len(seen.cores) > 1 else seen.mean_cores
    oldest = max(seen.ages, default=float("inf"))
    return [
        Line("scrapes made, rounds", f"{rounds.get('ok', 0):.0f}"),
        Line("scrapes missed, rounds", f"{missed:.0f}", "0", missed == 0),
        Line("dropped from queues", f"{dropped:.0f}", "0", dropped == 0),
        Line("errors", f"{errors:.0f}", "0", errors == 0),
        Line("processor, mean cores", f"{seen.mean_cores:.2f}", f"<= {MOST_CORES:g}", seen.mean_cores <= MOST_CORES),
        Line("processor, p95 of 5 s, cores", f"{cores:.2f}"),
        Line("resident memory, most, MB", f"{seen.resident / 1e6:.0f}", "<= 600", seen.resident <= MOST_BYTES),
        Line("scrape to verdict, median, s", f"{statistics.median(seen.lags or [0.0]):.2f}"),
        Line("scrape to verdict, most, s", f"{late:.2f}", f"< {fleet.INTERVAL:g}", late < fleet.INTERVAL),
        Line("metrics page, most, s", f"{max(seen.pages, default=0.0):.2f}"),
        Line("oldest counters on it, s", f"{oldest:.1f}", f"< {OLDEST:g}", oldest < OLDEST),
        Line("written to disk, MB/s", f"{seen.written / 1e6:.2f}"),
        *(Line(f"spans {outcome}", f"{number:.0f}") for outcome, number in sorted(spans.items())),
        Line("spans lost", f"{lost:.0f}", "0", lost == 0),
    ]


def lines_of(sent: dict[str, int], code: int | None) -> list[Line]:
    return [
        *(Line(f"sender: {what}", str(number)) for what, number in sent.items()),
        Line("exports that failed", str(sent.get("failed", 0)), "0", not sent.get("failed", 0)),
        Line("exit code at the end", str(code), "0", code == 0),
    ]


def measured(servers: int, spans: int, seconds: float, cpus: set[int]) -> list[Line]:
    """Run a service beside a fleet, and return what was seen."""
    sent: dict[str, int] = {}
    port, others = free_ports(1), os.sched_getaffinity(0) - cpus
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        with pinned(others):
            running.enter_context(running_fleet(servers, round(seconds / fleet.INTERVAL) + 12))
        with pinned(cpus):
            service = running.enter_context(serving(settings(Path(folder), servers, port), port))
        until(lambda: all_up(service, servers), 120, "every server")
        with pinned(others), sending(service.url, servers, spans, sent):
            time.sleep(2 * fleet.INTERVAL)  # configurations are read once, at the beginning
            seen = watched(service, seconds)
        found = table(seen, service)
        return [*found, *lines_of(sent, ended(service))]


def ended(service: Serving) -> int | None:
    """Return the exit code of a service that is told to end; None when it does not."""
    try:
        return service.end()
    except subprocess.TimeoutExpired:
        return None


def all_up(service: Serving, servers: int) -> bool:
    time.sleep(1)  # being asked costs the service something
    return sum(one["up"] for one in service.json("/api/v1/targets")) == servers


def numbers(text: str) -> set[int]:
    return {int(one) for one in text.split(",") if one}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--servers", type=int, default=200)
    options.add_argument("--spans", type=int, default=10_000, help="per second")
    options.add_argument("--cpus", type=numbers, default=set(), help="processors of the service; the rest serve it")
    requested = options.parse_args()
    found = measured(requested.servers, requested.spans, requested.minutes * 60, requested.cpus)
    print(f"{requested.servers} servers, {requested.spans} spans/s, {requested.minutes:g} minutes")
    print(*found, sep="\n")
    return verdict(found)


def verdict(found: Sequence[Line]) -> int:
    missed = [line.what for line in found if not line.met]
    print("every target was met" if not missed else f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
