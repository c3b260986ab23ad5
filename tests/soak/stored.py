"""What `diag explain` takes of a Prometheus that scrapes so many Tritons, one ensemble of four members each.

    python -m tests.soak.stored [--servers 1000] [--minutes 5]

The Prometheus is a fake in a process of its own. Prints the processor time and memory of the command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.promql.fake_prometheus import FakePrometheus
from tests.soak.running import DIAG, ROOT, environment

INTERVAL, MEMBERS = 15.0, 4


def pages(seconds: float) -> list[Scrape]:
    """Return the metrics pages of one server; one of its members is busy."""
    names = [f"m{number}" for number in range(MEMBERS)]
    members = [Stage(name, rate=38, execution=0.004, queue=0.0005, config=model_config(name)) for name in names[1:]]
    members.append(Stage(names[0], rate=38, execution=0.0245, queue=0.17, config=model_config(names[0])))
    spent = sum(one.queue + one.seconds_of(1) for one in members) + 0.001
    entry = Stage("e", rate=38, overhead=spent, config=chain("e", *names))
    scrapes = SyntheticTriton(models=(*members, entry), interval=INTERVAL).scrapes(round(seconds / INTERVAL) + 1)
    return [one for one in scrapes if one.kind is BodyKind.METRICS]


def serve(servers: int, seconds: float) -> None:
    """Answer queries until the process is ended; print the address."""
    fake, read = FakePrometheus(), pages(seconds)
    for number in range(servers):
        fake.scrape_all(read, instance=f"triton-{number}:8002")
    with fake.running():
        print(fake.url, len(fake.series), len(fake.series) * len(read), flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def running(servers: int, seconds: float) -> Iterator[list[str]]:
    """Run the Prometheus beside; give its address, its series and its samples."""
    command = [sys.executable, "-m", "tests.soak.stored", "--serve", "--servers", str(servers)]
    with subprocess.Popen(
        [*command, "--minutes", str(seconds / 60)],
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()
        finally:
            process.kill()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--servers", type=int, default=1000)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    requested = options.parse_args()
    if requested.serve:
        serve(requested.servers, requested.minutes * 60)
        return 0
    with running(requested.servers, requested.minutes * 60) as (url, series, samples):
        begun = time.monotonic()
        command = [*DIAG, "explain", url, "--since", f"{requested.minutes:g}m", "--output", "json"]
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        took = time.monotonic() - begun
    print(f"{requested.servers} servers, {series} series, {samples} samples in {requested.minutes:g} minutes")
    print(f"exit code {os.waitstatus_to_exitcode(status)}")
    print(f"processor {used.ru_utime + used.ru_stime:.1f} s, {took:.1f} s in all, with the store's answers")
    print(f"resident memory, most, {used.ru_maxrss * 1024 / 1e6:.0f} MB")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
