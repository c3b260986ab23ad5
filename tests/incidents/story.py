"""Public reports as windows: a TOML file states an incident's figures, and this makes the server that had them.

title, source, status          what was seen, where it is told, and how sure the cause is:
                               S a maintainer or a fix says so, R the reporter confirmed it,
                               I inferred from figures, U unresolved
[server]                       cpu_busy, gpu (an NVML sample's fields), closed (kinds), interval, reads, host, metrics
                               (lines of the page; `$read` is the read's number)
[[model]]                      what `tests.builders.Stage` takes, and instances, gpus, backend, max_batch, batching,
                               sequences, parameters, decoupled, warmups; or steps = [[requests, execution, queue], …],
                               one per read from read `starts` on (2: the third), for a version that is loaded then;
                               ends = the read from which it is no longer listed; broken = true: durations below zero
[[ensemble]]                   name, members (called one after another, or at once: parallel), rate, seconds, failing
[expect]                       cause and model (S and R only), never (ids, or "any"), verdict, never_verdict, and noted:
                               findings that are there and not loud
[[expect.reading]]             signal, model, value
Engines, machines, clients, traces, the index and siblings: `tests.incidents.scene`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnostics.wire.records import BodyKind
from tests.builders import Alter, Counts, Rows, Stage, SyntheticTriton, chain, ensemble_config, model_config
from tests.incidents.scene import Scene, engine_lines

FOLDER = Path(__file__).parent
CERTAIN = ("S", "R")
STATUSES = (*CERTAIN, "I", "U")
LOADED_AT, BROKEN_AT = 2, 6
_AROUND = {"index", "client", "trace", "replica"}
_TOP = {"title", "source", "status", "server", "model", "ensemble", "expect", *_AROUND}
_EXPECT = {"cause", "model", "never", "verdict", "never_verdict", "noted", "reading"}
_TRAFFIC = {
    *("name", "version", "rate", "execution", "queue", "input", "output", "overhead"),
    *("batches", "client_batch", "failing", "pending", "pending_growth"),
}
_CONFIG = {
    *("instances", "gpus", "backend", "max_batch", "batching", "decoupled", "warmups", "sequences", "parameters"),
}
_SPECIAL = {"steps", "starts", "ends", "broken", "engine"}
_SERVER = {"cpu_busy", "gpu", "closed", "interval", "reads", "metrics", "host"}
# 2^64 microseconds in seconds: what an unsigned difference below zero becomes.
UNDERFLOW_SECONDS = 2.0**64 * 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One report: its server, and what may and must be said of it."""

    name: str
    title: str
    source: str
    status: str
    scene: Scene
    cause: tuple[str, ...]
    model: str | None
    never: tuple[str, ...]
    verdicts: tuple[str, ...]
    never_verdicts: tuple[str, ...]
    noted: tuple[str, ...]
    readings: tuple[tuple[str, str, float], ...]


def stories() -> list[Story]:
    """Return all stories of this folder, by file name."""
    return [story_of(path.stem, tomllib.loads(path.read_text())) for path in sorted(FOLDER.glob("*.toml"))]


def story_of(name: str, reported: Mapping[str, Any]) -> Story:
    """Return one story; a key that nothing reads is an error."""
    _only(reported, _TOP, name)
    expect = reported["expect"]
    _only(expect, _EXPECT, f"{name} [expect]")
    return Story(
        name=name,
        title=reported["title"],
        source=reported["source"],
        status=reported["status"],
        scene=_scene(reported, name),
        cause=_listed(expect, "cause"),
        model=expect.get("model"),
        never=_listed(expect, "never"),
        verdicts=_listed(expect, "verdict"),
        never_verdicts=_listed(expect, "never_verdict"),
        noted=_listed(expect, "noted"),
        readings=tuple((one["signal"], one["model"], one["value"]) for one in expect.get("reading", ())),
    )


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(table) - known:
        raise ValueError(f"{where}: nothing reads {', '.join(sorted(unknown))}")


def _listed(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    return (value,) if isinstance(value, str) else tuple(value)


def _scene(reported: Mapping[str, Any], name: str) -> Scene:
    server = reported.get("server", {})
    _only(server, _SERVER, f"{name} [server]")
    return Scene(
        triton=_triton(reported, name),
        reads=server.get("reads", 13),
        siblings={
            replica["name"]: _triton(_differing(reported, replica), name) for replica in reported.get("replica", ())
        },
        host=server.get("host", {}),
        index=reported.get("index", ()),
        clients=reported.get("client", ()),
        traces=reported.get("trace", ()),
    )


def _differing(reported: Mapping[str, Any], replica: Mapping[str, Any]) -> Mapping[str, Any]:
    changes = replica.get("models", {})
    return {**reported, "model": [{**model, **changes.get(model["name"], {})} for model in reported.get("model", ())]}


def _triton(reported: Mapping[str, Any], name: str) -> SyntheticTriton:
    server = reported.get("server", {})
    models = reported.get("model", ())
    stages = [_stage(model, name) for model in models] + [_ensemble(one) for one in reported.get("ensemble", ())]
    triton = SyntheticTriton(
        models=tuple(stages),
        cpu_busy=None if "host" in server else server.get("cpu_busy"),
        gpu=server.get("gpu"),
        interval=server.get("interval", 5.0),
        alter=_alteration(models),
        extra_metrics=lambda number: [
            *(line.replace("$read", str(number)) for line in server.get("metrics", ())),
            *engine_lines(models, number),
        ],
    )
    return triton.without(*(BodyKind(kind) for kind in server.get("closed", ())))


def _stage(model: Mapping[str, Any], name: str) -> Stage:
    _only(model, _TRAFFIC | _CONFIG | _SPECIAL, f"{name} {model['name']}")
    traffic = {key: model[key] for key in _TRAFFIC if key in model}
    for key in ("execution", "batches"):
        if isinstance(traffic.get(key), dict):
            traffic[key] = {int(size): value for size, value in traffic[key].items()}
    return Stage(**traffic, config=_config(model))


def _config(model: Mapping[str, Any]) -> dict[str, object]:
    group: dict[str, object] = {"kind": "KIND_CPU", "count": model.get("instances", 1)}
    if "gpus" in model:
        group |= {"kind": "KIND_GPU", "gpus": model["gpus"]}
    more = {"sequence_batching": model["sequences"]} if "sequences" in model else {}
    parameters = {key: {"string_value": value} for key, value in model.get("parameters", {}).items()}
    return model_config(
        model["name"],
        backend=model.get("backend", "python"),
        max_batch=model.get("max_batch", 0),
        groups=[group],
        batching=model.get("batching"),
        model_transaction_policy={"decoupled": model.get("decoupled", False)},
        model_warmup=[{"name": f"sample-{i}"} for i in range(model.get("warmups", 0))],
        parameters=parameters,
        **more,
    )


def _ensemble(reported: Mapping[str, Any]) -> Stage:
    name, members = reported["name"], reported["members"]
    at_once = ((model, ("t0",), (f"t{i + 1}",)) for i, model in enumerate(members))
    return Stage(
        name,
        rate=reported["rate"],
        overhead=reported["seconds"],
        failing=reported.get("failing", {}),
        config=ensemble_config(name, *at_once) if reported.get("parallel") else chain(name, *members),
    )


def _alteration(models: Sequence[Mapping[str, Any]]) -> Alter:
    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        changed = dict(rows)
        for model in models:
            key = (model["name"], model.get("version", "1"))
            if "steps" in model:
                done = model["steps"][: max(number - model.get("starts", LOADED_AT) + 1, 0)]
                changed.pop(key)
                changed |= {key: _counted(done)} if done else {}
            if number >= model.get("ends", number + 1):
                changed.pop(key)
            if number == BROKEN_AT and model.get("broken"):
                changed[key] = replace(changed[key], queue=UNDERFLOW_SECONDS, seconds=UNDERFLOW_SECONDS)
        return changed

    return alter


def _counted(steps: Sequence[Sequence[float]]) -> Counts:
    requests = sum(n for n, _, _ in steps)
    infer = sum(n * execution for n, execution, _ in steps)
    queue = sum(n * waited for n, _, waited in steps)
    return Counts(
        requests=requests,
        items=requests,
        executions=requests,
        seconds=infer + queue,
        queue=queue,
        infer=infer,
        batches={1: (requests, infer)},
    )
