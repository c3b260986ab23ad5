"""What stands around a story's server: its engine's gauges, its machine, its callers, its traces, its siblings.

[model.engine]      gauges of an engine by the names of `GAUGES`, each a number, or a list that reads go through in turn
[server.host]       busy, cores, stubs (name -> cores that it uses), memory ([first, last] bytes), available (bytes)
[[index]]           read, model, version, state, reason: what the repository index said then
[[client]]          model, rate, seconds (a number or a list): requests as their client saw them
[[trace]]           every (seconds), ensemble, front, tail, stages: {model, queue, input, compute, output, gap, below}
[[replica]]         name, and models: {name = {what differs from the first server}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from diagnostics import names
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, SyntheticTriton, host_body
from tests.builders_machine import SERVER_PID, body
from tests.builders_traces import Leg, call, ensemble_trace, export, exported, trace_id

Stated = Mapping[str, Any]
GAUGES = {
    "active": (names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, "active"),
    "waiting": (names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, "waiting"),
    "scheduled": (names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, "scheduled"),
    "context": (names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, "context"),
    "slots": (names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, "max"),
    "kv_max": (names.ENGINE_KV, names.ENGINE_KV_TYPE, "max"),
    "kv_used": (names.ENGINE_KV, names.ENGINE_KV_TYPE, "used"),
    "kv_free": (names.ENGINE_KV, names.ENGINE_KV_TYPE, "free"),
    "block_tokens": (names.ENGINE_KV, names.ENGINE_KV_TYPE, "tokens_per"),
    "context_tokens": (names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, "total_context_tokens"),
    "generation": (names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, "generation_requests"),
    "paused": (names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, "paused_requests"),
    "micro_batch": (names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, "micro_batch_id"),
    "iterations": (names.ENGINE_GENERAL, names.ENGINE_GENERAL_TYPE, "iteration_counter"),
}
_ITERATIONS_PER_READ = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A server and what stands around it; `siblings` are other servers by name."""

    triton: SyntheticTriton
    reads: int = 13
    siblings: Mapping[str, SyntheticTriton] = field(default_factory=dict)
    host: Stated = field(default_factory=dict)
    index: Sequence[Stated] = ()
    clients: Sequence[Stated] = ()
    traces: Sequence[Stated] = ()

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.reads - 1) * self.triton.interval

    def scrapes(self) -> list[Scrape]:
        """Return everything that is read."""
        found = self.triton.scrapes(self.reads)
        for name, sibling in self.siblings.items():
            found += [replace(scrape, server=name) for scrape in sibling.scrapes(self.reads) if scrape.server]
        found += [body(BodyKind.HOST, at, self._host(at)) for at in self._moments()] if self.host else []
        found += list(_indexed(self.index, self.triton.interval))
        if self.clients:
            found.append(replace(body(BodyKind.CLIENT, 0.0, "\n".join(self._calls())), server=""))
        if self.traces:
            found.append(exported(export(span for trace in self._traced() for span in trace)))
        return found

    def _moments(self) -> Iterable[float]:
        return (number * self.triton.interval for number in range(self.reads))

    def _host(self, at: float) -> dict[str, object]:
        first, last = self.host.get("memory", (1e9, 1e9))
        size = first + (last - first) * at / self.seconds
        tree = [{"pid": SERVER_PID, "ppid": 1, "comm": "tritonserver", "cpu_seconds": 0.0, "rss_bytes": size}]
        for number, (name, cores) in enumerate(self.host.get("stubs", {}).items(), start=1):
            process = {"pid": SERVER_PID + number, "ppid": SERVER_PID, "comm": name[:15], "rss_bytes": 0.0}
            tree.append({**process, "cpu_seconds": cores * (START + at)})
        return {
            **host_body(START + at, self.host.get("busy", 0.2), self.host.get("cores", 4)),
            "server_pid": SERVER_PID,
            "server_processes": tree,
            "meminfo": {"MemAvailable": f"{self.host.get('available', 64e9) / 1024:.0f} kB"},
        }

    def _calls(self) -> Iterator[str]:
        for client in self.clients:
            for number in range(round(client["rate"] * self.seconds)):
                ms = reported_at(client["seconds"], number) * 1e3
                yield json.dumps({"t": START + number / client["rate"], "model": client["model"], "ms": ms, "ok": True})

    def _traced(self) -> Iterator[list[dict[str, object]]]:
        for kind, trace in enumerate(self.traces):
            legs, front = [_leg(stage) for stage in trace["stages"]], trace.get("front", 0.0)
            for number in range(int((self.seconds - 2) / trace["every"])):
                identity, at = trace_id(kind * 100_000 + number + 1), 0.5 + number * trace["every"]
                if "ensemble" in trace:
                    yield ensemble_trace(identity, at, legs, name=trace["ensemble"], tail=trace.get("tail", 0.0))
                else:
                    yield call(identity, legs[0], at, front=front)


def reported_at(value: float | Sequence[float], number: int) -> float:
    """Return a number that is told once, or one of those that come in turn."""
    return value if isinstance(value, int | float) else value[number % len(value)]


def engine_lines(models: Sequence[Stated], number: int) -> Iterator[str]:
    """Yield the gauges of the models' engines at one read; an engine iterates unless its story says otherwise."""
    for model in models:
        if "engine" not in model:
            continue
        says = {"iterations": [_ITERATIONS_PER_READ * number], **model["engine"]}
        for key, value in says.items():
            family, label, kind = GAUGES[key]
            labels = f'model="{model["name"]}",version="{model.get("version", "1")}",{label}="{kind}"'
            yield f"{family}{{{labels}}} {reported_at(value, number):g}"


def _leg(stage: Stated) -> Leg:
    below = tuple(_leg(child) for child in stage.get("below", ()))
    return Leg(**{**stage, "below": below})


def _indexed(entries: Sequence[Stated], interval: float) -> Iterator[Scrape]:
    for read in sorted({entry["read"] for entry in entries}):
        listed = [
            {"name": entry["model"], "version": entry.get("version", "1"), "state": entry.get("state", "READY")}
            | ({"reason": entry["reason"]} if "reason" in entry else {})
            for entry in entries
            if entry["read"] == read
        ]
        yield replace(body(BodyKind.INDEX, read * interval, json.dumps(listed)), server=SERVER)
