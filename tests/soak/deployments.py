"""Real Tritons that come, go, die and change their settings under one `diag serve`, for hours.

    python -m tests.soak.deployments [--hours 24] [--servers 2] [--seed 1]

Servers are found in a file that lists them. Each lives on its own: it starts healthy or with one instance too few, gets
its load, has the number of its instances changed while it runs, is killed and comes back, and is at last taken from the
list and ended. After each step the service must come to the truth of that server, and stay with it. Prints a line for
each step and the service's memory; exits with 1 when an incident is open at the end that should not be, one is missing,
or memory grew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment, find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import Ports, TritonLauncher
from tests.collect.fake_triton import free_ports
from tests.soak.running import Serving, serving, under_load

FAULT, CAUSE, MODEL = "single-instance", "single-instance-serialization", "safety"
LOAD = replace(load_fault(FAULT).load, rate=32.0, duration=86_400.0)
"""One instance of the model is busy for most of the time, two for less than half."""
PATIENCE = 240.0
"""Seconds to come to the truth. An incident that nothing proves ended ends after five minutes in production, and after
one here."""
WATCHED = 30.0
"""Seconds for which the service must stay with it."""
OF_THE_HOST = "host-cpu-starved"
"""True of a machine that is busy with other work, and no matter of any server."""
BYTES_OF_GROWTH, SHARE_OF_GROWTH = 60e6, 0.25
Open = frozenset[tuple[str, str]]
Truth = Callable[[Open], bool]


@dataclass
class Listed:
    """The file in which the service finds its servers."""

    path: Path
    urls: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, url: str | None) -> None:
        """List a server under a name, or no longer where it has no URL."""
        with self.lock:
            self.urls.pop(name, None)
            if url is not None:
                self.urls[name] = url
            found = [{"targets": [url], "labels": {"deployment": name}} for name, url in self.urls.items()]
            written = self.path.with_suffix(".new")
            written.write_text(json.dumps(found))
            written.replace(self.path)


@dataclass
class Soak:
    """What runs, and what was seen of it."""

    service: Serving
    environment: TritonEnvironment
    listed: Listed
    end: float
    wrong: list[str] = field(default_factory=list)
    steps: int = 0

    def open_incidents(self, name: str) -> Open:
        """Return check and model of each open incident of a server that is not the machine's."""
        found = self.service.json(f"/api/v1/incidents?state=open&deployment={name}")
        found = [one for one in found if one["check"] != OF_THE_HOST]
        return frozenset((one["check"], one["subject"]["model"] or "") for one in found)

    def comes_to(self, name: str, what: str, truth: Truth) -> None:
        """Wait until the open incidents of a server are true, and look whether they stay so."""
        begun = time.monotonic()
        while not truth(seen := self.open_incidents(name)) and time.monotonic() < begun + PATIENCE:
            time.sleep(1.0)
        took, until = time.monotonic() - begun, time.monotonic() + WATCHED
        held = truth(seen)
        while held and time.monotonic() < until:
            time.sleep(2.0)
            held = truth(seen := self.open_incidents(name))
        self.report(f"{name}: {what}: {_listed(seen)} after {took:.0f} s", right=held)

    def report(self, line: str, *, right: bool) -> None:
        self.steps += 1
        line = f"{time.strftime('%H:%M:%S')} {'ok   ' if right else 'WRONG'} {line}"
        if not right:
            self.wrong.append(line)
        print(line, flush=True)


def _listed(seen: Open) -> str:
    return ", ".join(sorted(f"{check} of {model or 'the server'}" for check, model in seen)) or "nothing open"


def slow(seen: Open) -> bool:
    """Tell whether the one cause is open, and nothing else is."""
    return seen == {(CAUSE, MODEL)}


def well(seen: Open) -> bool:
    return not seen


def set_count(server: TritonLauncher, count: int) -> None:
    """Change the number of instances as a user would: in the file, by a load."""
    path = server.repository / MODEL / "config.pbtxt"
    path.write_text(re.sub(r"count: \d+", f"count: {count}", path.read_text("utf-8")))
    server.load_model(MODEL)


def life(soak: Soak, name: str, rng: random.Random) -> None:
    """Let servers come and go under a name until the end; the last one goes too."""
    while time.monotonic() < soak.end:
        fault = rng.choice((FAULT, "healthy"))
        ports, count = Ports.free(), 1 if fault == FAULT else 2
        dies = rng.random() < 0.5
        with (
            TritonLauncher(soak.environment, load_fault(fault), ports=ports) as server,
            under_load(server.http_url, LOAD),
        ):
            soak.listed.put(name, server.http_url)
            soak.comes_to(name, f"came {fault}", slow if count == 1 else well)
            for _ in range(rng.randint(1, 3)):
                count = 3 - count
                set_count(server, count)
                soak.comes_to(name, f"count {3 - count} → {count}", slow if count == 1 else well)
            if dies:
                os.kill(server.pid, signal.SIGKILL)
                soak.comes_to(name, "killed", lambda seen: any(check == "model-unavailable" for check, _ in seen))
        if dies:
            with (
                TritonLauncher(soak.environment, load_fault("healthy"), ports=ports) as server,
                under_load(server.http_url, LOAD),
            ):
                soak.comes_to(name, "came back healthy", well)
        soak.listed.put(name, None)
        soak.comes_to(name, "left", well)


def run(soak: Soak, names: Sequence[str], seed: int) -> None:
    """Let one server after another live under each name, until the end."""

    def lived(name: str) -> None:
        try:
            life(soak, name, random.Random(f"{seed} {name}"))
        except Exception as error:  # noqa: BLE001 - whatever ended it is a step that was not right
            soak.report(f"{name}: {error!r}", right=False)

    threads = [threading.Thread(target=lived, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def settings_of(folder: Path, port: int, listed: Path) -> Path:
    """Write the service's settings: rounds of two seconds, and all else as in production but an incident's end."""
    file = folder / "diag.toml"
    file.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "2s"\nwindow = "60s"\n'
        f'[incidents]\nclose_after = "60s"\n[history]\ndirectory = "{folder}/data"\n'
        f'[discovery]\ngroup_by = "deployment"\n[[discovery.file]]\nfiles = ["{listed}"]\nrefresh = "2s"\n'
    )
    return file


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hours", type=float, default=24.0)
    options.add_argument("--servers", type=int, default=2, help="at once")
    options.add_argument("--seed", type=int, default=1)
    requested = options.parse_args()
    environment = find_environment()
    if environment is None:
        print("no environment of a Triton on this machine: make triton", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        listed = Listed(folder / "servers.json")
        names, port = [f"triton-{number}" for number in range(requested.servers)], free_ports(1)
        listed.path.write_text("[]")
        with serving(settings_of(folder, port, listed.path), port) as service:
            soak = Soak(service, environment, listed, time.monotonic() + 3600.0 * requested.hours)
            first = threading.Timer(600.0, lambda: sizes.append(service.resident_bytes()))
            sizes: list[int] = []
            first.start()
            run(soak, names, requested.seed)
            first.cancel()
            left = service.json("/api/v1/incidents?state=open")
            last = service.resident_bytes()
            code = service.end()
    print(f"{soak.steps} steps, {len(soak.wrong)} not right; {len(left)} incidents open at the end, exit code {code}")
    print(f"memory: {' to '.join(f'{size / 1e6:.0f} MB' for size in (*sizes, last))}")
    grew = bool(sizes) and last > sizes[0] * (1 + SHARE_OF_GROWTH) + BYTES_OF_GROWTH
    for one in soak.wrong:
        print(one)
    return int(bool(soak.wrong or left or code or grew))


if __name__ == "__main__":
    sys.exit(main())
