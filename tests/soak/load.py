"""What the service costs with 200 servers of 960 samples every 15 s and 10,000 spans/s.

    python -m tests.soak.load [--minutes 10] [--servers 200] [--spans 10000]

Prints missed rounds, processor cores, resident memory and the lag from scrape to verdict; exits with 1 beyond a target.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import urllib3

from tests.builders_traces import Leg, ensemble_trace, export, trace_id
from tests.collect.fake_triton import free_ports
from tests.soak import fleet
from tests.soak.running import ROOT, Serving, environment, serving, until

CORES, MEGABYTES = 1.0, 600.0
LEGS = tuple(Leg(model=f"m0_{n}", queue=0.001, compute=0.004) for n in range(4))
SPANS_A_BODY = 500


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


def settings(folder: Path, servers: int, port: int) -> Path:
    listed = "".join(f'[[server]]\nurl = "http://{fleet.address(n)}:{fleet.API}"\n' for n in range(servers))
    file = folder / "diag.toml"
    file.write_text(f'[web]\nlisten_address = "127.0.0.1:{port}"\n[history]\ndirectory = "{folder}/data"\n{listed}')
    return file


class Sender:
    """Sends spans at a rate in a process's own thread until it is told to stop."""

    def __init__(self, url: str, rate: int) -> None:
        self.sent = self.refused = 0
        self._url, self._rate, self._stop = url, rate, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sender:
        if self._rate:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._rate:
            self._thread.join()

    def _run(self) -> None:
        one = ensemble_trace(trace_id(1), 0.0, LEGS, name="e0")
        traces = SPANS_A_BODY // len(one)
        pause = traces * len(one) / self._rate
        number, due = 0, time.monotonic()
        with urllib3.PoolManager(retries=False, timeout=10) as pool:
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                due += pause
                now = time.time() - 1_000_000.0  # the builder's beginning of time
                spans = [s for n in range(traces) for s in ensemble_trace(trace_id(number + n), now, LEGS, name="e0")]
                number += traces
                answer = pool.request(
                    "POST", f"{self._url}/v1/traces", body=export(spans), headers={"Content-Type": "application/json"}
                )
                self.sent += len(spans)
                self.refused += len(spans) if answer.status != 200 else 0


def measured(service: Serving, seconds: float) -> dict[str, float]:
    """Return what the service used in so many seconds, and the worst it was seen at."""
    before = counted(service)
    begun, used, most, lag = time.monotonic(), service.processor_seconds(), 0, 0.0
    while time.monotonic() < begun + seconds:
        time.sleep(5)
        most = max(most, service.resident_bytes())
        lag = max([lag, *service.samples("diag_evaluation_lag_seconds").values()])
    took = time.monotonic() - begun
    return {
        "cores": (service.processor_seconds() - used) / took,
        "megabytes": most / 1e6,
        "lag": lag,
        **{name: value - before[name] for name, value in counted(service).items()},
    }


def counted(service: Serving) -> dict[str, float]:
    rounds = service.samples("diag_rounds_total")
    outcomes = {
        outcome: sum(value for labels, value in rounds.items() if f'outcome="{outcome}"' in labels)
        for outcome in ("ok", "failed", "skipped")
    }
    totals = {
        "verdicts": "diag_evaluation_seconds_count",
        "errors": "diag_errors_total",
        "dropped": "diag_dropped_total",
    }
    return outcomes | {name: sum(service.samples(metric).values()) for name, metric in totals.items()}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--servers", type=int, default=200)
    options.add_argument("--spans", type=int, default=10_000, help="per second")
    asked = options.parse_args()
    reads = round(asked.minutes * 60 / fleet.INTERVAL) + 12
    with tempfile.TemporaryDirectory() as folder, running_fleet(asked.servers, reads):
        port = free_ports(1)
        file = settings(Path(folder), asked.servers, port)
        with serving(file, port) as service:
            until(
                lambda: sum(one["up"] for one in service.json("/api/v1/targets")) == asked.servers, 60, "every server"
            )
            with Sender(service.url, asked.spans) as sender:
                time.sleep(2 * fleet.INTERVAL)  # configurations are read once, at the beginning
                found = measured(service, asked.minutes * 60)
            ended = service.end()
        print(f"{asked.servers} servers, {asked.minutes:g} minutes: " + told(found))
        print(f"spans sent {sender.sent}, refused {sender.refused}; ended with {ended}")
    missed = found["failed"] + found["skipped"] + found["dropped"]
    within = found["cores"] <= CORES and found["megabytes"] <= MEGABYTES and found["lag"] < fleet.INTERVAL
    return 0 if within and not missed and not sender.refused and ended == 0 else 1


def told(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" if value % 1 else f"{name} {value:.0f}" for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
