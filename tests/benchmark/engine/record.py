"""Records an incident of the real engine and, after each change that may help, the same load once more."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import urllib3

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.server import TritonLauncher
from diagnostics.loadgen.load import SentRequest, summarise
from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.repository import repository_scrapes
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.engine.clients import send
from tests.benchmark.engine.world import Beside, Incident, write
from tests.benchmark.spans import Spans

INTERVAL = 1.0
_SETTLING = 3.0
_TRACE_RATE = 10
# Seconds before the end at which the next server starts; what it does first, it does on other processors.
_NEXT_STARTS = 3.5
FAILED_MS = 15_000.0
_HOG = "while True: pass"
_NEIGHBOUR = Path(__file__).with_name("neighbour.py")
Seen = tuple[SentRequest, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was recorded of one run: what clients saw, with the milliseconds to the first piece, and what happened."""

    clients: list[Seen]
    events: list[str]
    ready_seconds: float

    def felt(self, incident: Incident) -> float:
        """Return the mean latency in milliseconds of those who felt it; a failure counts as `FAILED_MS`."""
        counted = [one for one, _ in self._counted(incident)]
        return sum(one.ms if one.ok else FAILED_MS for one in counted) / len(counted) if counted else float("inf")

    def summary(self, incident: Incident) -> dict[str, object]:
        """Return what clients saw, to see whether a fault showed and a healthy one was healthy."""
        own = self._counted(incident)
        reported = summarise([one for one, _ in own])
        firsts = sorted(first for one, first in own if one.ok)
        return {
            "requests": reported.requests,
            "errors": reported.errors,
            "mean_ms": reported.mean_ms,
            "p50_ms": reported.p50_ms,
            "p95_ms": reported.p95_ms,
            "first_p50_ms": firsts[len(firsts) // 2] if firsts else None,
            "codes": sorted({one.code for one, _ in own}),
            "ready_seconds": round(self.ready_seconds, 1),
            "events": self.events,
        }

    def _counted(self, incident: Incident) -> list[Seen]:
        start = 0.0 if incident.early else _SETTLING
        own = [(one, first) for one, first in self.clients if one.model == incident.felt_by]
        return [(one, first) for one, first in own if one.t - self.clients[0][0].t >= start]


def observe(incident: Incident, path: Path, environment: TritonEnvironment, card: int, seed: int) -> Observed:
    """Run a deployment under its load, write the capture to `path`, and return what was seen."""
    beside = incident.beside
    with ExitStack() as stack:
        turn = stack.enter_context(_turn(card))
        begun = time.monotonic()
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        repository = write(incident.deployment, scratch / "repository")
        spans = stack.enter_context(Spans())
        stack.enter_context(_card(card, mps=beside.mps))
        cores = stack.enter_context(_confined(beside.cores))
        settings = ("mode=opentelemetry", f"opentelemetry,url={spans.url}", f"rate={_TRACE_RATE}", "level=TIMESTAMPS")
        options = ["--allow-gpu-metrics=false", *(f"--trace-config={one}" for one in settings)]
        server = stack.enter_context(TritonLauncher(environment, repository, args=options, stop_timeout=1.0))
        ready = time.monotonic() - begun
        stack.enter_context(_neighbours(beside, cores))
        clients: list[Seen] = []
        load = threading.Thread(
            target=lambda: clients.extend(
                send(incident.loads, incident.deployment, server.http_url, incident.seconds, seed)
            )
        )
        load.start()
        events: list[str] = []
        happening = threading.Thread(target=_happen, args=(beside, server, repository, events))
        happening.start()
        if not (beside.memory_left or beside.mps):
            threading.Timer(incident.seconds - _NEXT_STARTS, turn.close).start()
        scrapes = _read(incident, server, repository, card)
        happening.join()
        load.join()
        server.check()
        scrapes += [replace(one, server="triton-0") for one in spans.scrapes()]
    _write(path, scrapes, [one for one, _ in clients])
    return Observed(clients=clients, events=events, ready_seconds=ready)


@contextmanager
def _turn(card: int) -> Iterator[IO[str]]:
    """Wait until the card is read of by nobody else; closing what is yielded lets the next one start."""
    with (Path(tempfile.gettempdir()) / f"engine-card-{card}").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield mark


def _read(incident: Incident, server: TritonLauncher, repository: Path, card: int) -> list[Scrape]:
    target = discover(server.http_url, SourceOptions())
    machine = Machine([target])
    time.sleep(0.3 if incident.early else _SETTLING)
    seconds = incident.seconds - (0.3 if incident.early else _SETTLING) - 0.5
    scrapes = list(collect([target, *([machine] if machine.local else [])], INTERVAL, seconds=seconds))
    scrapes += repository_scrapes(repository, [target.name])
    body = server.log_path.read_bytes()
    scrapes.append(Scrape(server=target.name, kind=BodyKind.LOG, at=scrapes[0].at, mono=scrapes[0].mono, body=body))
    target.close()
    machine.close()
    scrapes = [replace(one, server="triton-0" if one.server == target.name else one.server) for one in scrapes]
    return [_own_card(one, card) for one in scrapes]


def _own_card(scrape: Scrape, card: int) -> Scrape:
    """Keep of a sample of the cards the one that the deployment has; others are another recorder's."""
    if scrape.kind is not BodyKind.NVML or scrape.body is None:
        return scrape
    body = json.loads(scrape.body)
    body["gpus"] = [one for one in body["gpus"] if one.get("index") == card]
    return replace(scrape, body=json.dumps(body).encode())


def _write(path: Path, scrapes: Sequence[Scrape], clients: Sequence[SentRequest]) -> None:
    scrapes = sorted(scrapes, key=lambda scrape: scrape.at)
    window = [scrape.at for scrape in scrapes if scrape.kind is BodyKind.METRICS]
    name = path.name.removesuffix(".tar.xz")
    with CaptureWriter(path, name, ["triton-0"], INTERVAL, trace_rate=_TRACE_RATE, overwrite=True) as writer:
        for scrape in scrapes:
            writer.add(scrape)
        seen = [one for one in clients if window[0] <= one.t <= window[-1]]
        body = "".join(one.line() + "\n" for one in seen).encode()
        writer.add(Scrape(server="", kind=BodyKind.CLIENT, at=window[0], mono=window[0], body=body))


@contextmanager
def _card(card: int, *, mps: bool) -> Iterator[None]:
    """Let what is started meanwhile see one card only, shared through the multi-process service if wanted."""
    before = dict(os.environ)
    os.environ["CUDA_VISIBLE_DEVICES"] = str(card)
    with tempfile.TemporaryDirectory() as folder:
        if mps:
            os.environ.update(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
            subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
            os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        try:
            yield
        finally:
            if mps:
                subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _confined(cores: int) -> Iterator[list[int]]:
    """Let what is started meanwhile run on so many processors only, and yield which; 0 for all."""
    allowed = os.sched_getaffinity(0)
    mine = set(sorted(allowed)[-cores:]) if cores else allowed
    os.sched_setaffinity(0, mine)
    try:
        yield sorted(mine)
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def _neighbours(beside: Beside, cores: Sequence[int]) -> Iterator[None]:
    """Run what else is on the machine; it is there before the load begins."""
    running: list[subprocess.Popen[bytes]] = []
    if beside.turns[0] or beside.memory_left:
        values = [str(beside.turns[0]), str(beside.turns[1]), str(beside.memory_left)]
        tenants = [[sys.executable, str(_NEIGHBOUR), *values]] * beside.tenants
        running += [subprocess.Popen(command, stdout=subprocess.PIPE) for command in tenants]
        for one in running:
            assert one.stdout is not None
            one.stdout.readline()
    for _ in range(beside.hogs):
        hog = subprocess.Popen([sys.executable, "-c", _HOG])
        os.sched_setaffinity(hog.pid, cores)
        running.append(hog)
    try:
        yield
    finally:
        for one in running:
            one.send_signal(signal.SIGKILL)
            one.wait()


def _happen(beside: Beside, server: TritonLauncher, repository: Path, events: list[str]) -> None:
    started, http = time.monotonic(), urllib3.PoolManager(retries=False, timeout=60.0)
    for second, what, model in beside.events:
        time.sleep(max(0.0, started + second - time.monotonic()))
        begun = time.monotonic()
        if what != "unload":
            # A file that has changed: the server loads the model anew, not only asks whether it is there.
            (repository / model / "1" / "changed").write_text(str(begun), "utf-8")
        path = f"/v2/repository/models/{model}/{'unload' if what == 'unload' else 'load'}"
        status = 0
        with suppress(urllib3.exceptions.HTTPError):
            status = http.request("POST", server.http_url + path, body=b"{}").status
        events.append(f"{second:.0f} s: {what} {model}, status {status}, took {time.monotonic() - begun:.1f} s")
