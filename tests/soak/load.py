"""What the service costs with 200 servers of 960 samples every 15 s.

    python -m tests.soak.load [--minutes 10] [--servers 200]

Prints missed rounds, processor cores, resident memory and the lag from scrape to verdict; exits with 1 beyond a target.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.collect.fake_triton import free_ports
from tests.soak import fleet
from tests.soak.running import ROOT, Serving, environment, serving, until

CORES, MEGABYTES = 1.0, 600.0


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
    asked = options.parse_args()
    reads = round(asked.minutes * 60 / fleet.INTERVAL) + 12
    with tempfile.TemporaryDirectory() as folder, running_fleet(asked.servers, reads):
        port = free_ports(1)
        file = settings(Path(folder), asked.servers, port)
        with serving(file, port) as service:
            until(
                lambda: sum(one["up"] for one in service.json("/api/v1/targets")) == asked.servers, 60, "every server"
            )
            time.sleep(2 * fleet.INTERVAL)  # configurations are read once, at the beginning
            found = measured(service, asked.minutes * 60)
            ended = service.end()
        print(f"{asked.servers} servers, {asked.minutes:g} minutes: " + told(found))
        print(f"ended with {ended}")
    missed = found["failed"] + found["skipped"] + found["dropped"]
    within = found["cores"] <= CORES and found["megabytes"] <= MEGABYTES and found["lag"] < fleet.INTERVAL
    return 0 if within and not missed and ended == 0 else 1


def told(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" if value % 1 else f"{name} {value:.0f}" for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
