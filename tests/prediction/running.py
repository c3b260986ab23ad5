"""Measures many jobs on several servers at once, each with its client on processors of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import subprocess
import threading
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment, ensure_environment
from diagnostics.errors import CollectError, DiagError, UsageError
from tests.prediction.backlog import Backlog
from tests.prediction.folder import Folder
from tests.prediction.keeping import TRACE_RATE, keep
from tests.prediction.observing import CARDS_VARIABLE, observe, visible_cards
from tests.prediction.plan import Job
from tests.prediction.serving import Served, serving

# Processes sleep while their GPU computes: one for what they launch, one for the server, and one for its client.
GPU_PROCESSORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The GPUs that the models' Python computes on: their product, empty without any, and their numbers."""

    name: str = ""
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of a job: `failed` and `disturbed` say why; empty where they do not apply."""

    stated: str = ""
    failed: str = ""
    disturbed: str = ""
    triton: str = ""


def measure_all(
    folder: Folder, backlog: Backlog, cpus: Sequence[Sequence[int]], cards: Cards, *, every_window: bool = False
) -> int:
    """Measure what the backlog hands out, with a worker for each set of processors; return how many jobs failed.

    The cards are shared out as the processors are, each to one worker. The windows of jobs whose window others are
    predicted from are kept, with `every_window` those of all.

    Raises:
        UsageError: what is in the folder came from another machine.
        CollectError: a worker was ended from outside.

    """
    of_cards = card_shares(cards.numbers, len(cpus))
    workers = [
        _Direction(folder, backlog, share, cards.name, own, every_window=every_window)
        for share, own in zip(cpus, of_cards, strict=True)
    ]
    with ThreadPoolExecutor(max_workers=len(workers)) as pool:
        return sum(pool.map(_Direction.run, workers))


class _Direction:
    """Gives jobs to a worker of its own until nothing is left for it."""

    _telling = threading.Lock()

    def __init__(
        self,
        folder: Folder,
        backlog: Backlog,
        cpus: Sequence[int],
        gpu: str,
        cards: Sequence[int],
        *,
        every_window: bool,
    ) -> None:
        self._folder, self._backlog, self._cpus = folder, backlog, cpus
        self._gpu, self._cards, self._every_window = gpu, cards, every_window

    def run(self) -> int:
        """Return how many jobs failed."""
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        worker = spawn.Process(target=work, args=(there, self._folder.path, self._cpus, self._cards), daemon=True)
        worker.start()
        there.close()
        server, failed = "", 0
        while (job := self._backlog.take(server, cards=len(self._cards))) is not None:
            failed += self._has_failed(job, self._ask(here, replace(job, kept=job.kept or self._every_window)))
            server = job.server
        here.send(None)
        worker.join()
        return failed

    def _ask(self, pipe: Connection, job: Job) -> Done:
        pipe.send(job)
        try:
            done: Done = pipe.recv()
        except EOFError as error:
            raise CollectError("the worker was ended from outside", where=job.name, hint="run it again") from error
        return done

    def _has_failed(self, job: Job, done: Done) -> bool:
        if done.triton:
            with self._telling:
                self._folder.came_from(about_machine(done.triton, self._gpu))
        repeated = bool(done.failed or done.disturbed) and self._backlog.again(job)
        print(f"{job.name}: {done.failed or done.stated}{' - once more' if repeated else ''}", flush=True)
        return bool(done.failed) and not repeated


def work(pipe: Connection, path: Path, cpus: Sequence[int], cards: Sequence[int]) -> None:
    """Measure the jobs that come through a pipe, keeping a server for as long as they ask for the same."""
    os.sched_setaffinity(0, cpus)
    os.environ[CARDS_VARIABLE] = ",".join(map(str, cards))
    worker = _Worker(Folder(path))
    with worker.stack:
        while (job := pipe.recv()) is not None:
            pipe.send(worker.done(job))


class _Worker:
    def __init__(self, folder: Folder) -> None:
        self.folder, self.environment, self.stack = folder, ensure_environment(), ExitStack()
        self._name = ""
        self._served: Served | None = None

    def done(self, job: Job) -> Done:
        try:
            return self._measure(self._server(job), job)
        except DiagError as error:
            self._leave()
            return Done(failed=f"failed: {error}")

    def _server(self, job: Job) -> Served:
        if self._served is None or self._name != job.server:
            self._leave()
            self._served = self.stack.enter_context(serving(self.environment, job.deployment, job.trace_rate))
            self._name = job.server
        return self._served

    def _leave(self) -> None:
        self.stack.close()
        self._served = None

    def _measure(self, served: Served, job: Job) -> Done:
        measured, scrapes = observe(served, job)
        if job.kept:
            keep(self.folder.capture(job.name), scrapes, job.interval, TRACE_RATE // job.trace_rate)
        self.folder.write(measured)
        stated = f"mean {measured.mean.value * 1e3:.1f} ms, p95 {measured.p95.value * 1e3:.1f} ms, "
        stated += f"{measured.throughput:.1f}/s, busy {measured.busy_share:.0%}"
        stated += f"; disturbed: {measured.disturbed}" if measured.disturbed else ""
        with urllib.request.urlopen(f"{served.launcher.http_url}/v2", timeout=5.0) as answer:
            version = str(json.load(answer)["version"])
        return Done(stated=stated, disturbed=measured.disturbed, triton=version)


def about_machine(triton: str, gpu: str) -> dict[str, str]:
    """Return what a reader wants to know of this machine."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    about = {"cpu": model, "cores": str(os.cpu_count()), "kernel": platform.release(), "triton": triton}
    return {**about, **({"gpu": gpu} if gpu else {})}


def shares(cpus: Sequence[int], parallel: int) -> list[Sequence[int]]:
    """Return the processors of each of so many workers.

    Raises:
        UsageError: there are fewer processors than workers.

    """
    each = len(cpus) // parallel
    if not each:
        raise UsageError(f"{len(cpus)} processors are too few for {parallel} servers", where="--parallel")
    return [cpus[number * each : (number + 1) * each] for number in range(parallel)]


def card_shares(cards: Sequence[int], workers: int) -> list[Sequence[int]]:
    """Return the cards of each worker: as many each, and at least one for those that come first."""
    each = max(len(cards) // workers, 1)
    return [cards[number * each : (number + 1) * each] for number in range(workers)]


def cards_of(environment: TritonEnvironment) -> Cards:
    """Return the GPUs that the models' Python computes on; none where there is none, or no torch."""
    code = "import torch; c = torch.cuda; print(c.device_count(), c.get_device_name(0) if c.is_available() else '')"
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=False)
    count, _, name = done.stdout.strip().partition(" ") if done.returncode == 0 else ("0", "", "")
    own = visible_cards()
    return Cards(name=name, numbers=tuple(range(int(count)) if own is None else own[: int(count)]))
