"""Records a drawn incident from a real Triton, and tries its repairs where causes compete."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment
from diagnostics.demo.server import TritonLauncher
from diagnostics.errors import CollectError
from diagnostics.loadgen.driving import Action
from diagnostics.loadgen.load import SentRequest, summarise
from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.repository import repository_scrapes
from exporters.sources.schedule import Source, collect
from exporters.sources.triton import discover
from tests.benchmark.clients import send
from tests.benchmark.deployment import release, write
from tests.benchmark.draws.base import Drawn
from tests.benchmark.hop import Hop
from tests.benchmark.spans import Spans

SETTLING_SECONDS = 5.0
INTERVAL_SECONDS = 2.0
TRIAL_SECONDS = 18.0
TRACE_RATE = 10
# A change that takes less off a request than this share of what the best one takes is not the cause.
AS_GOOD = 0.9
_STANDIN = ("service_", "first_execution_ms", "fail_", "gpu_size", "gpu_product_us", "standin_")
_SUMMARIES = ("--metrics-config=summary_latencies=true",)
Fleet = tuple[TritonLauncher, Path]


def record(drawn: Drawn, name: str, folder: Path, environment: TritonEnvironment) -> dict[str, object]:
    """Record one incident as `folder/name.tar.xz` and return its label."""
    with Spans() as spans, serving(drawn, environment, spans.url) as fleet:
        scrapes, clients = _observe(drawn, fleet)
        for server, _ in fleet:
            server.check()
    _write(folder / f"{name}.tar.xz", name, [*scrapes, *spans.scrapes()], clients)
    return _label(drawn, environment, _mean_ms(clients))


@contextmanager
def serving(drawn: Drawn, environment: TritonEnvironment, spans: str = "") -> Iterator[list[Fleet]]:
    """Run the servers of an incident; yields each with its repository. Only a single one is traced.

    A body of spans does not say which of several servers it is from.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_confined(drawn.cores))
        traced = tracing(spans) if spans and len(drawn.shares) == 1 else _SUMMARIES
        fleet: list[Fleet] = []
        for number in range(len(drawn.shares)):
            odd = drawn.slowed if number == len(drawn.shares) - 1 else None
            repository = write(odd or drawn.deployment, scratch / f"repository-{number}")
            server = TritonLauncher(environment, repository, args=(*traced, *drawn.options))
            fleet.append((stack.enter_context(server), repository))
        yield fleet


@contextmanager
def _confined(cores: int) -> Iterator[None]:
    """Let what is started meanwhile run on so many processors only; 0 for all."""
    if not cores:
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, random.sample(sorted(allowed), min(cores, len(allowed))))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def tracing(url: str) -> tuple[str, ...]:
    """Return the options with which a Triton sends its traces to a receiver."""
    settings = ("mode=opentelemetry", f"opentelemetry,url={url}", f"rate={TRACE_RATE}", "level=TIMESTAMPS")
    return (*(f"--trace-config={setting}" for setting in settings), *_SUMMARIES)


def _observe(drawn: Drawn, fleet: Sequence[Fleet]) -> tuple[list[Scrape], list[SentRequest]]:
    targets = [discover(server.http_url, SourceOptions()) for server, _ in fleet]
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=1) as pool:
        machine = Machine(targets)
        for target in targets:
            stack.callback(target.close)
        stack.callback(machine.close)
        load = pool.submit(_send, drawn, fleet)
        stack.enter_context(_neighbour(drawn.neighbour))
        time.sleep(SETTLING_SECONDS)
        sources: list[Source] = [*targets, *([machine] if machine.local else [])]
        seconds = drawn.load.duration - SETTLING_SECONDS - 1.0
        scrapes = list(collect(sources, INTERVAL_SECONDS, seconds=seconds))
        for target, (_, repository) in zip(targets, fleet, strict=True):
            scrapes += repository_scrapes(repository, [target.name])
        named = {target.name: f"triton-{number}" for number, target in enumerate(targets)}
        scrapes = [replace(scrape, server=named.get(scrape.server, scrape.server)) for scrape in scrapes]
        return [without_standin(scrape) for scrape in scrapes], load.result()


@contextmanager
def _neighbour(share: float) -> Iterator[None]:
    """Run another process on the first GPU for a share of the time."""
    if not share:
        yield
        return
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("neighbour.py"), str(share)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _send(drawn: Drawn, fleet: Sequence[Fleet]) -> list[SentRequest]:
    actions, (first, repository) = [], fleet[0]
    if drawn.release is not None:
        spec = drawn.release

        def go_live() -> None:
            release(drawn.deployment, repository, spec)
            # A version that is broken is refused, and the one before it goes on serving.
            with suppress(CollectError) if spec.broken else nullcontext():
                first.load_model(spec.name)

        actions.append(Action(at=drawn.load.duration * 0.4, do=go_live))
    with ExitStack() as stack:
        urls = [server.http_url for server, _ in fleet]
        if drawn.hop_ms:
            urls = [stack.enter_context(Hop(url, drawn.hop_ms)).url for url in urls]
        return send(drawn, urls, actions)


def _write(path: Path, name: str, scrapes: Sequence[Scrape], clients: Sequence[SentRequest]) -> None:
    scrapes = sorted(scrapes, key=lambda scrape: scrape.at)
    names = sorted({scrape.server for scrape in scrapes if scrape.kind is BodyKind.STATISTICS})
    window = [scrape.at for scrape in scrapes if scrape.kind is BodyKind.STATISTICS]
    with CaptureWriter(path, name, names, INTERVAL_SECONDS, trace_rate=TRACE_RATE, overwrite=True) as writer:
        for scrape in scrapes:
            writer.add(scrape)
        seen = [record for record in clients if window[0] <= record.t <= window[-1]]
        body = "".join(record.line() + "\n" for record in seen).encode()
        writer.add(Scrape(server="", kind=BodyKind.CLIENT, at=window[0], mono=window[0], body=body))


def without_standin(scrape: Scrape) -> Scrape:
    """Take the stand-ins' own parameters out: they say what a real model's files do not."""
    if scrape.body is None:
        return scrape
    if scrape.kind is BodyKind.REPOSITORY:
        lines = scrape.body.decode().splitlines(keepends=True)
        kept = [line for line in lines if not any(f'key: "{own}' in line for own in _STANDIN)]
        return replace(scrape, body="".join(kept).encode())
    if scrape.kind is BodyKind.CONFIG:
        config = json.loads(scrape.body)
        parameters = config.get("parameters", {})
        config["parameters"] = {key: v for key, v in parameters.items() if not key.startswith(_STANDIN)}
        return replace(scrape, body=json.dumps(config).encode())
    if scrape.kind is BodyKind.LOG:
        # A verbose log shows the configurations that were read.
        return replace(
            scrape, body=b"".join(line for line in scrape.body.splitlines(keepends=True) if b"standin_" not in line)
        )
    return scrape


def _label(drawn: Drawn, environment: TritonEnvironment, before_ms: float) -> dict[str, object]:
    measured = {check: _trial(repaired, environment) for check, repaired in (drawn.repairs or {}).items()}
    causes = helped_most(before_ms, measured) if measured else list(drawn.causes)
    label: dict[str, object] = {"cause": causes or "healthy", "kind": drawn.kind}
    if drawn.target:
        label["model"] = drawn.target
    if drawn.release is not None and drawn.causes:
        label["version"] = "2"
    if drawn.also:
        label["also"] = sorted({*drawn.also, *drawn.causes})
    if measured:
        label["mean_ms"] = round(before_ms, 1)
        label["mean_ms_after"] = {check: round(ms, 1) for check, ms in sorted(measured.items())}
    return label


def helped_most(before_ms: float, after_ms: Mapping[str, float]) -> list[str]:
    """Return the changes that took about as much off the mean latency as the best of them did."""
    best = before_ms - min(after_ms.values())
    return sorted(check for check, ms in after_ms.items() if before_ms - ms >= AS_GOOD * best)


def _trial(repaired: Drawn, environment: TritonEnvironment) -> float:
    """Return the mean latency in milliseconds that clients see after one change, warm."""
    repaired = replace(repaired, load=replace(repaired.load, duration=TRIAL_SECONDS))
    with serving(repaired, environment) as fleet:
        return _mean_ms(_send(repaired, fleet))


def _mean_ms(records: Sequence[SentRequest]) -> float:
    warm = [record for record in records if record.t - records[0].t >= SETTLING_SECONDS]
    mean = summarise(warm).mean_ms
    return float("inf") if mean is None else mean


@contextmanager
def reported(path: Path) -> Iterator[dict[str, object]]:
    """Keep a file of labels up to date."""
    labels: dict[str, object] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    yield labels
    path.write_text(json.dumps(labels, indent=1, sort_keys=True) + "\n", "utf-8")
