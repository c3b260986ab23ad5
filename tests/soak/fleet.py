"""Many Tritons in one process, for little: prepared bodies at addresses of the loopback network.

    python -m tests.soak.fleet SERVERS READS

Server n listens on the ports 8000 and 8002 of `address(n)`. Each read of a metrics page moves that server on by one of
READS prepared reads, 15 s apart; statistics are those of the same read. 960 samples a page.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, chain, model_config

INTERVAL = 15.0
API, METRICS = 8000, 8002
ENSEMBLES, MEMBERS = 4, 4
PHASES = ("request", "queue", "compute_input", "compute_infer", "compute_output")
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
FAILING = {"BACKEND": 5.0}  # an incident, however fast the prepared reads are gone through
Routes = Mapping[tuple[int, bytes], bytes]


def address(number: int) -> str:
    """Return where a server listens."""
    return f"127.77.{number // 250}.{number % 250 + 1}"


def stages() -> tuple[Stage, ...]:
    """Return twenty models: four ensembles of four members; one of them fails."""
    found = list[Stage]()
    for number in range(ENSEMBLES):
        names = [f"m{number}_{position}" for position in range(MEMBERS)]
        busy = (
            {"execution": 0.0245, "queue": 0.17, "failing": FAILING}
            if number == 0
            else {"execution": 0.004, "queue": 0.0005}
        )
        members = [Stage(name, rate=38, config=model_config(name), **busy) for name in names[:1]]
        members += [
            Stage(name, rate=38, execution=0.004, queue=0.0005, config=model_config(name)) for name in names[1:]
        ]
        spent = sum(one.queue + one.seconds_of(1) for one in members) + 0.001
        found += [*members, Stage(f"e{number}", rate=38, overhead=spent, config=chain(f"e{number}", *names))]
    return tuple(found)


def summaries(models: Sequence[Stage], read: int) -> Iterator[str]:
    """Yield what `--metrics-config summary_latencies=true` adds: all of it changes with each read."""
    for phase in PHASES:
        yield f"# TYPE nv_inference_{phase}_summary_us summary"
        for at, stage in enumerate(models):
            labels = f'model="{stage.name}",version="1"'
            yield f"nv_inference_{phase}_summary_us_count{{{labels}}} {read * 570 + at}"
            yield f"nv_inference_{phase}_summary_us_sum{{{labels}}} {read * 570_000 + at}"
            for quantile in QUANTILES:
                value = 1000 + 10_000 * quantile + (read * 7919 + at) % 97
                yield f'nv_inference_{phase}_summary_us{{{labels},quantile="{quantile}"}} {value:.0f}'


def reads(count: int) -> list[Routes]:
    """Return so many reads: the body by port and path."""
    models = stages()
    triton = SyntheticTriton(
        models=models, interval=INTERVAL, extra_metrics=lambda read: summaries(models, read), cpu_busy=None
    )
    found: dict[float, dict[BodyKind, bytes]] = {}
    for scrape in triton.scrapes(count):
        found.setdefault(scrape.at, {})[scrape.kind] = scrape.body or b""
    fixed = {(API, f"/v2/models/{one.name}/config".encode()): json.dumps(one.config).encode() for one in models}
    fixed[API, b"/v2"] = json.dumps({"name": "triton", "version": "2.50.0", "extensions": []}).encode()
    fixed[API, b"/v2/repository/index"] = json.dumps(
        [{"name": one.name, "version": "1", "state": "READY"} for one in models]
    ).encode()
    return [
        {**fixed, (METRICS, b"/metrics"): body[BodyKind.METRICS], (API, b"/v2/models/stats"): body[BodyKind.STATISTICS]}
        for body in found.values()
    ]


@dataclass(slots=True)
class Served:
    """One server."""

    reads: Sequence[Routes]
    read: int = 0

    def body(self, port: int, path: bytes) -> bytes | None:
        found = self.reads[self.read].get((port, path))
        if path == b"/metrics" and self.read + 1 < len(self.reads):
            self.read += 1
        return found

    async def answer(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            body = self.body(port, head.split(b" ", 2)[1])
            status = b"200 OK" if body is not None else b"404 Not Found"
            length = str(len(body or b"")).encode()
            writer.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: " + length + b"\r\n\r\n")
            writer.write(body or b"")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def serve(servers: int, count: int) -> None:
    prepared = reads(count)
    for number in range(servers):
        served = Served(prepared)
        for port in (API, METRICS):

            async def answer(reader, writer, served=served, port=port) -> None:
                await served.answer(port, reader, writer)

            await asyncio.start_server(answer, address(number), port)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
