"""Records an incident of a drawn kind from a real Triton, as far as it can be seen."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import urllib3

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.server import Ports, TritonLauncher
from diagnostics.loadgen.load import SentRequest, summarise
from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.repository import repository_scrapes
from exporters.sources.schedule import collect
from exporters.sources.triton import discover
from tests.benchmark.kinds.clients import send
from tests.benchmark.kinds.repository import write, write_ensemble, write_model
from tests.benchmark.kinds.sights import Sight, sight_of
from tests.benchmark.kinds.world import Event, Incident, Load, World
from tests.benchmark.record import helped_most, without_standin
from tests.benchmark.spans import Spans

_SETTLING = 4.0
_TRIAL = 16.0
_TRACE_RATE = 20
_SUMMARIES = "--metrics-config=summary_latencies=true"
_HOG = "while True: pass"
# Seconds that a throttled server runs between two stops.
_RUNS = 0.06
Sending = Callable[[Sequence[Load], str, float, int], list[SentRequest]]


@dataclass(slots=True)
class Running:
    """A server that runs, and what is needed to do something to it; `again` makes it anew on the same ports."""

    server: TritonLauncher
    repository: Path
    control: Path
    world: World
    cores: Sequence[int]
    again: Callable[[Ports], TritonLauncher]
    http: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False, timeout=60.0))
    done: list[tuple[float, str]] = field(default_factory=list)

    def do(self, event: Event) -> None:
        """Let an event happen."""
        begun = time.time()
        result = getattr(self, f"_{event.do}")(event.model, event.values)
        self.done.append((begun, f"{event.do} {event.model}: {result} after {time.time() - begun:.1f} s"))

    def _set(self, model: str, values: Mapping[str, object]) -> object:
        self._write(model, values)
        return self._load(model, {})

    def _release(self, model: str, values: Mapping[str, object]) -> object:
        return self._set(model, {"versions": (2,), **values})

    def _set_over_http(self, model: str, values: Mapping[str, object]) -> object:
        """A load through the HTTP port, which holds one of the frontend's threads, and who is connected to it."""
        self._write(model, values)
        answer = self.http.request("POST", f"{self.server.http_url}/v2/repository/models/{model}/load", body=b"{}")
        return answer.status, answer.data[:200].decode()

    def _write(self, model: str, values: Mapping[str, object]) -> None:
        self.world = self.world.changed(model, **values)
        write_model(self.world.model(model), self.repository, self.control)

    def _rewire(self, model: str, values: Mapping[str, object]) -> object:
        """Give an ensemble other steps."""
        ensemble = next(each for each in self.world.ensembles if each.name == model)
        write_ensemble(replace(ensemble, **values), self.world, self.repository)  # type: ignore[arg-type]
        return self._load(model, {})

    def _restart(self, _: str, __: Mapping[str, object]) -> object:
        """End the server's process as the kernel does when memory is short, and start it anew on the same ports."""
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.stop()
        self.server = self.again(self.server.ports)
        self.server.__enter__()
        return "ready"

    def _load(self, model: str, _: Mapping[str, object]) -> object:
        return self._call("RepositoryModelLoad", model)

    def _unload(self, model: str, _: Mapping[str, object]) -> object:
        return self._call("RepositoryModelUnload", model)

    def _call(self, procedure: str, model: str) -> object:
        """Call a procedure whose request holds the model's name in field 2; what it answers is empty."""
        body = b"\x12" + bytes([len(model)]) + model.encode()
        with grpc.insecure_channel(self.server.grpc_url.removeprefix("grpc://")) as channel:
            method = channel.unary_unary(f"/inference.GRPCInferenceService/{procedure}")
            try:
                method(body, timeout=60.0)
            except grpc.RpcError as error:
                return str(error)[:300]
        return "done"

    def _control(self, model: str, values: Mapping[str, object]) -> object:
        path = self.control / f"{model}.json"
        path.with_suffix(".new").write_text(json.dumps(dict(values)), "utf-8")
        path.with_suffix(".new").rename(path)
        return dict(values)

    def _kill(self, model: str, _: Mapping[str, object]) -> object:
        stubs = sorted(_stubs_of(f"{self.repository}/{model}/"))
        if stubs:
            os.kill(stubs[0], signal.SIGKILL)
        return stubs

    def _hog(self, _: str, values: Mapping[str, object]) -> object:
        def run() -> None:
            count = int(str(values["processes"]))
            hogs = [subprocess.Popen([sys.executable, "-c", _HOG]) for _ in range(count)]
            for hog in hogs:
                os.sched_setaffinity(hog.pid, self.cores)
            time.sleep(float(str(values["seconds"])))
            for hog in hogs:
                hog.kill()
                hog.wait()

        threading.Thread(target=run).start()
        return dict(values)

    def _throttle(self, _: str, values: Mapping[str, object]) -> object:
        ends, stopped = time.monotonic() + float(str(values["seconds"])), float(str(values["period"])) - _RUNS
        while time.monotonic() < ends:
            os.killpg(self.server.pid, signal.SIGSTOP)
            time.sleep(stopped)
            os.killpg(self.server.pid, signal.SIGCONT)
            time.sleep(_RUNS)
        return dict(values)


def _stubs_of(part: str) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = process.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if "triton_python_backend_stub" in line and part in line:
                yield int(process.parent.name)


def record(incident: Incident, name: str, folder: Path, environment: TritonEnvironment, seed: int) -> dict[str, object]:
    """Record one incident as `folder/name.tar.xz`; return its label, and beside it what the clients saw."""
    sight = sight_of(incident)
    with Spans() as spans, serving(incident, environment, spans.url if sight.traces else "") as running:
        scrapes, clients = observe([(incident, running)], sight, seed)
        running.server.check()
        events = [f"{at - clients[0].t:.1f} {what}" for at, what in running.done]
    kept = [scrape for scrape in [*scrapes, *spans.scrapes()] if sight.shows(scrape)]
    write_capture(folder / f"{name}.tar.xz", name, kept, clients, sight)
    measured = {check: _trial(one, environment, seed) for check, one in (incident.repairs or {}).items()}
    label = _label(incident, measured, clients)
    return {"label": label, "seen": {**seen_by_clients(incident, clients), "events": events}}


@contextmanager
def serving(incident: Incident, environment: TritonEnvironment, spans: str = "") -> Iterator[Running]:
    """Run the server of an incident."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        repository = write(incident.world, scratch / "repository", scratch / "control")
        cores = stack.enter_context(_confined(incident.cores))
        caches = environment.site_packages / "pytriton/tritonserver/caches"
        options = [_SUMMARIES, "--allow-gpu-metrics=false", *incident.options]
        if any(model.cache for model in incident.world.models):
            options += [f"--cache-directory={caches}", "--cache-config=local,size=4194304"]
        if incident.refused:
            options += ["--exit-on-error=false", "--strict-readiness=false"]
        if spans:
            settings = ("mode=opentelemetry", f"opentelemetry,url={spans}", f"rate={_TRACE_RATE}", "level=TIMESTAMPS")
            options += [f"--trace-config={setting}" for setting in settings]
        # The last spans are sent while a server ends; nothing else of its end is recorded.
        stop_timeout = 5.0 if spans else 0.0

        def launcher(ports: Ports | None) -> TritonLauncher:
            return TritonLauncher(environment, repository, ports, options, stop_timeout=stop_timeout)

        server = stack.enter_context(launcher(None))
        running = Running(server, repository, scratch / "control", incident.world, cores, launcher)
        stack.callback(lambda: running.server.stop())
        yield running


@contextmanager
def _confined(cores: int) -> Iterator[Sequence[int]]:
    """Let what is started meanwhile run on so many processors only, and yield which; 0 for all.

    `$KINDS_CORES` names pairs of processors that are kept free for that, as `12-13,14-15`.
    """
    allowed = os.sched_getaffinity(0)
    if not cores:
        yield sorted(allowed)
        return
    pairs = [pair.split("-") for pair in os.environ.get("KINDS_CORES", "").split(",") if pair]
    with ExitStack() as stack:
        chosen = stack.enter_context(_reserved(pairs)) if pairs else sorted(allowed)
        mine = random.Random(os.getpid()).sample(chosen, min(cores, len(chosen)))
        os.sched_setaffinity(0, mine)
        try:
            yield mine
        finally:
            os.sched_setaffinity(0, allowed)


@contextmanager
def _reserved(pairs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Wait for a pair of processors that no other recording uses, and yield it."""
    while True:
        for pair in pairs:
            with (Path(tempfile.gettempdir()) / f"kinds-cores-{'-'.join(pair)}").open("w") as mark:
                try:
                    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield [int(core) for core in pair]
                return
        time.sleep(0.5)


def observe(
    fleet: Sequence[tuple[Incident, Running]], sight: Sight, seed: int, sending: Sending = send
) -> tuple[list[Scrape], list[SentRequest]]:
    """Read servers for as long as the incident of the first lasts; return what was read and what clients saw."""
    incident = fleet[0][0]
    targets = [discover(running.server.http_url, SourceOptions()) for _, running in fleet]
    machine = Machine(targets, gpus=False)
    with under_load(fleet, incident.seconds, seed, sending) as (started, clients):
        begins = max(_SETTLING, incident.fault_at * incident.seconds + sight.late if sight.late else 0.0)
        time.sleep(max(0.0, started + begins - time.monotonic()))
        sources = [*targets, *([machine] if machine.local else [])]
        scrapes = list(collect(sources, sight.interval, seconds=incident.seconds - begins - 0.5))
        at, mono = scrapes[0].at, scrapes[0].mono
        for target, (_, running) in zip(targets, fleet, strict=True):
            scrapes += repository_scrapes(running.repository, [target.name])
            if sight.log:
                body = running.server.log_path.read_bytes()
                scrapes.append(Scrape(server=target.name, kind=BodyKind.LOG, at=at, mono=mono, body=body))
    for source in (*targets, machine):
        source.close()
    names = {target.name: f"triton-{number}" for number, target in enumerate(targets)}
    scrapes = [replace(scrape, server=names.get(scrape.server, scrape.server)) for scrape in scrapes]
    return [without_standin(scrape) for scrape in scrapes], clients


@contextmanager
def under_load(
    fleet: Sequence[tuple[Incident, Running]], seconds: float, seed: int, sending: Sending = send
) -> Iterator[tuple[float, list[SentRequest]]]:
    """Send what clients send to each server and let its events happen; leave when all is answered.

    Yields when it began, on the monotonic clock, and the list that holds what clients saw in the end.
    """
    clients: list[SentRequest] = []
    started = time.monotonic()
    with ThreadPoolExecutor(max_workers=2 * len(fleet)) as pool:
        loads = [
            pool.submit(sending, incident.loads, running.server.http_url, seconds, seed + 1000 * number)
            for number, (incident, running) in enumerate(fleet)
        ]
        events = [
            pool.submit(happen, replace(incident, seconds=seconds), running, started) for incident, running in fleet
        ]
        yield started, clients
        for event in events:
            event.result()
        for load in loads:
            clients += load.result()
    clients.sort(key=lambda one: one.t)


def happen(incident: Incident, running: Running, started: float) -> None:
    """Let the events of an incident happen, each at its time after `started`."""
    for event in sorted(incident.events, key=lambda event: event.at):
        time.sleep(max(0.0, started + event.at * incident.seconds - time.monotonic()))
        try:
            running.do(event)
        except (OSError, urllib3.exceptions.HTTPError) as error:
            running.done.append((time.time(), f"{event.do} {event.model}: {error!r}"))


def write_capture(
    path: Path, name: str, scrapes: Sequence[Scrape], clients: Sequence[SentRequest], sight: Sight
) -> None:
    """Write what was read and, if it is in sight, what clients saw, as a capture."""
    scrapes = sorted(scrapes, key=lambda scrape: scrape.at)
    window = [scrape.at for scrape in scrapes if scrape.kind is BodyKind.METRICS]
    servers = sorted({scrape.server for scrape in scrapes if scrape.kind is BodyKind.METRICS})
    with CaptureWriter(path, name, servers, sight.interval, trace_rate=_TRACE_RATE, overwrite=True) as writer:
        for scrape in scrapes:
            writer.add(scrape)
        if sight.clients:
            seen = [record for record in clients if window[0] <= record.t <= window[-1]]
            body = "".join(record.line() + "\n" for record in seen).encode()
            writer.add(Scrape(server="", kind=BodyKind.CLIENT, at=window[0], mono=window[0], body=body))


def _label(incident: Incident, measured: Mapping[str, float], clients: Sequence[SentRequest]) -> dict[str, object]:
    begun = clients[0].t + incident.fault_at * incident.seconds
    before = _mean_ms([record for record in clients if record.t >= begun])
    causes = helped_most(before, measured) if measured else list(incident.causes)
    label: dict[str, object] = {"cause": causes or "healthy", "sight": incident.sight}
    if incident.targets:
        label["model"] = sorted({*incident.targets})
    if incident.version:
        label["version"] = incident.version
    also = sorted({*incident.also, *incident.causes, *measured} - {"healthy"})
    if also and causes:
        label["also"] = also
    if incident.abstain_ok:
        label["abstain_ok"] = True
    if incident.no_gain:
        label["no_gain"] = list(incident.no_gain)
    if measured:
        label["mean_ms"] = round(before, 1)
        label["mean_ms_after"] = {check: round(ms, 1) for check, ms in sorted(measured.items())}
    return label


def _trial(repaired: Incident, environment: TritonEnvironment, seed: int) -> float:
    """Return the mean latency in milliseconds that clients see after one change, warm."""
    repaired = replace(repaired, seconds=_TRIAL)
    with serving(repaired, environment) as running, under_load([(repaired, running)], _TRIAL, seed) as (_, clients):
        pass
    return _mean_ms(clients)


def _mean_ms(records: Sequence[SentRequest]) -> float:
    warm = [record for record in records if record.t - records[0].t >= _SETTLING]
    mean = summarise(warm).mean_ms
    return float("inf") if mean is None else mean


def seen_by_clients(incident: Incident, clients: Sequence[SentRequest]) -> dict[str, object]:
    """Return what clients saw of each model before and after the fault began, to see whether it showed."""
    start, split = clients[0].t, incident.fault_at * incident.seconds or _SETTLING
    seen: dict[str, object] = {}
    for model in sorted({record.model for record in clients}):
        own = [record for record in clients if record.model == model]
        parts = {
            "before": [record for record in own if _SETTLING <= record.t - start < split],
            "after": [record for record in own if record.t - start >= split],
        }
        for part, records in parts.items():
            if records:
                reported = summarise(records)
                worst = max(record.ms for record in records)
                codes = sorted({record.code for record in records})
                seen[f"{model} {part}"] = (
                    f"n {reported.requests} bad {reported.errors} mean {reported.mean_ms or 0:.0f} p50 "
                    f"{reported.p50_ms or 0:.0f} "
                    f"p95 {reported.p95_ms or 0:.0f} max {worst:.0f} codes {codes}"
                )
    with suppress(StopIteration):
        seen["path_ms"] = round(incident.world.path_ms(incident.loads[0].model), 1)
    return seen


def gather(folder: Path) -> None:
    """Put what was recorded in `folder` into its subfolders `kinds` and `unnamed`, each with its `labels.json`.

    What clients saw stays in `seen.json`, to check by hand that each fault showed.
    """
    seen: dict[str, object] = {}
    labels: dict[str, dict[str, object]] = {"kinds": {}, "unnamed": {}}
    for path in sorted(folder.glob("*.recorded.json")):
        name, recorded = path.name.removesuffix(".recorded.json"), json.loads(path.read_text("utf-8"))
        into = "unnamed" if recorded["held_out"] else "kinds"
        (folder / into).mkdir(exist_ok=True)
        (folder / f"{name}.tar.xz").rename(folder / into / f"{name}.tar.xz")
        labels[into][name] = {**recorded["label"], "kind": recorded["kind"]}
        seen[name] = {"kind": recorded["kind"], **recorded["seen"]}
        path.unlink()
    for into, own in labels.items():
        if own:
            (folder / into / "labels.json").write_text(json.dumps(own, indent=1, sort_keys=True) + "\n", "utf-8")
    (folder / "seen.json").write_text(json.dumps(seen, indent=1) + "\n", "utf-8")
