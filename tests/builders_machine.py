"""Samples of the machine under a synthetic Triton: its GPUs over time, its processors, its processes.

window = machine_window(triton, gpus=lambda t: [{"processes": …}], hosts=lambda t: {"server_processes": …})
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from diagnostics.signals.signal import Subject
from diagnostics.window.view import ModelView
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, SyntheticTriton

Json = Mapping[str, object]
SERVER_PID = 100
CARD = "GPU-0"


def machine_window(
    triton: SyntheticTriton,
    *,
    reads: int = 13,
    gpus: Callable[[float], Sequence[Json]] | None = None,
    hosts: Callable[[float], Json] | None = None,
    more: Sequence[Scrape] = (),
    step: float = 1.0,
) -> Window:
    """Return the window of a Triton with samples of its machine each `step` seconds; both get seconds since START."""
    scrapes = [*triton.scrapes(reads), *more]
    seconds = max(scrape.at for scrape in scrapes) - START
    for number in range(round(seconds / step) + 1):
        at = number * step
        if gpus is not None:
            cards = [{"index": i, "uuid": f"GPU-{i}", **card} for i, card in enumerate(gpus(at))]
            scrapes.append(body(BodyKind.NVML, at, {"t": START + at, "gpus": cards}))
        if hosts is not None:
            scrapes.append(body(BodyKind.HOST, at, {"t": START + at, "server_pid": SERVER_PID, **hosts(at)}))
    return window_of(scrapes)


def body(kind: BodyKind, at: float, content: object) -> Scrape:
    """Return one body of a kind at so many seconds after START."""
    raw = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    server = "" if kind in (BodyKind.NVML, BodyKind.DCGM) else SERVER
    return Scrape(server=server, kind=kind, at=START + at, mono=START + at, body=raw)


def working(*shares: tuple[int, int]) -> Json:
    """Return a card on which these processes take so many per cent of the SM time."""
    return {
        "utilization_gpu_percent": min(sum(percent for _, percent in shares), 100),
        "processes": [{"pid": pid, "used_memory_bytes": 2**30} for pid, _ in shares],
        "process_utilization": [{"pid": pid, "sm_percent": percent} for pid, percent in shares],
    }


def processes(*pids: int, cpu: Callable[[int], float] = lambda _: 0.0, rss: float = 1e9) -> Json:
    """Return the server's tree: its own process and stubs with so many seconds of CPU time each."""
    return {
        "server_processes": [
            {"pid": pid, "ppid": SERVER_PID, "comm": "triton_python_b", "cpu_seconds": cpu(pid), "rss_bytes": rss}
            for pid in pids
        ]
    }


def card_view(window: Window, model: str | None = None, gpu: str | None = CARD) -> ModelView:
    """Return what the readers of a GPU's signals look at."""
    return ModelView(
        window=window,
        server=window.servers[SERVER],
        model=model,
        version=None,
        start=window.start,
        end=window.end,
        gpu=gpu,
    )


CARD_SUBJECT = Subject(server=SERVER, gpu=CARD)
