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
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from diagnostics.demo.environment import TritonEnvironment, ensure_environment
from diagnostics.errors import DiagError, UsageError
from tests.prediction.backlog import Backlog
from tests.prediction.folder import Folder
from tests.prediction.keeping import keep
from tests.prediction.observing import observe
from tests.prediction.plan import Job
from tests.prediction.serving import Served, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of a job: `failed` and `disturbed` say why; empty where they do not apply."""

    said: str = ""
    failed: str = ""
    disturbed: str = ""
    triton: str = ""


def measure_all(folder: Folder, backlog: Backlog, cpus: Sequence[Sequence[int]], gpu: str) -> int:
    """Measure what the backlog hands out, with a worker for each set of processors; return how many jobs failed."""
    failures: list[str] = []
    threads = [
        threading.Thread(target=_direct, args=(folder, backlog, share, number == 0 and bool(gpu), gpu, failures))
        for number, share in enumerate(cpus)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures)


def _direct(
    folder: Folder, backlog: Backlog, cpus: Sequence[int], takes_gpu: bool, gpu: str, failures: list[str]
) -> None:
    """Give jobs to a worker of its own until nothing is left for it."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    worker = spawn.Process(target=work, args=(there, folder.path, cpus), daemon=True)
    worker.start()
    server = ""
    while (job := backlog.take(server, gpu=takes_gpu)) is not None:
        here.send(job)
        done: Done = here.recv()
        server = job.server
        if done.triton:
            folder.came_from(about_machine(done.triton, gpu))
        repeated = bool(done.failed or done.disturbed) and backlog.again(job)
        if done.failed and not repeated:
            failures.append(job.name)
        print(f"{job.name}: {done.failed or done.said}{' - once more' if repeated else ''}", flush=True)
    here.send(None)
    worker.join()


def work(pipe: Connection, path: Path, cpus: Sequence[int]) -> None:
    """Measure the jobs that come through a pipe, keeping a server for as long as they ask for the same."""
    os.sched_setaffinity(0, cpus)
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
            self._served = self.stack.enter_context(serving(self.environment, job.deployment))
            self._name = job.server
        return self._served

    def _leave(self) -> None:
        self.stack.close()
        self._served = None

    def _measure(self, served: Served, job: Job) -> Done:
        measured, scrapes = observe(served, job)
        if job.kept:
            keep(self.folder.capture(job.name), scrapes)
        self.folder.write(measured)
        said = f"mean {measured.mean.value * 1e3:.1f} ms, p95 {measured.p95.value * 1e3:.1f} ms, "
        said += f"{measured.throughput:.1f}/s, busy {measured.busy_share:.0%}"
        said += f"; disturbed: {measured.disturbed}" if measured.disturbed else ""
        with urllib.request.urlopen(f"{served.launcher.http_url}/v2", timeout=5.0) as answer:
            version = str(json.load(answer)["version"])
        return Done(said=said, disturbed=measured.disturbed, triton=version)


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


def gpu_name(environment: TritonEnvironment) -> str:
    """Return the name of the GPU that the models' Python computes on; empty where there is none, or no torch."""
    code = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
