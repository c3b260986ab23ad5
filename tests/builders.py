"""A small synthetic Triton: what it would answer over time, for given traffic, as bodies off the wire.

    triton = SyntheticTriton(models=(Stage("safety", rate=40, queue=0.17, execution=0.024),))
    window = triton.window(reads=13)

Everything is stated per second and per request, so that a test's figures can be checked by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.diagnosis.explanation import Explanation, explain_evidence
from diagnostics.diagnosis.objective import Objective
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.signal import Subject
from diagnostics.window.view import ModelView
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape

START = 1_000_000.0
SERVER = "triton-0"
NS = 1e9
US = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Cumulative counters of one model version: requests, items, executions, seconds per phase, batches by size."""

    requests: float = 0.0
    items: float = 0.0
    executions: float = 0.0
    failures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    queue: float = 0.0
    input: float = 0.0
    infer: float = 0.0
    output: float = 0.0
    batches: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def spent(self) -> float:
        """Seconds of all requests: those of their phases where nothing else is said."""
        return self.seconds or self.queue + self.input + self.infer + self.output

    def __sub__(self, other: Counts) -> Counts:
        """Return what was counted since `other`: a server that restarted then."""
        numbers = ("requests", "items", "executions", "seconds", "queue", "input", "infer", "output")
        less = {name: getattr(self, name) - getattr(other, name) for name in numbers}
        zero = (0.0, 0.0)
        batches = {
            size: (count - other.batches.get(size, zero)[0], seconds - other.batches.get(size, zero)[1])
            for size, (count, seconds) in self.batches.items()
        }
        failures = {reason: n - other.failures.get(reason, 0.0) for reason, n in self.failures.items()}
        return Counts(**less, batches=batches, failures=failures)


@dataclass(frozen=True, slots=True)
class Stage:
    """One model version under steady traffic.

    `rate` counts requests per second, of `client_batch` items each; `batches` maps an execution's batch size to the
    share of executions that have it; `execution` maps a batch size to an execution's seconds (a number: at any size).
    `queue`, `input`, `output` are seconds per request. `failing` maps a reason to failed requests per second.
    `overhead` is what a request takes beyond its phases: the whole of it in an ensemble.
    """

    name: str
    rate: float = 0.0
    execution: float | Mapping[int, float] = 0.0
    queue: float = 0.0
    input: float = 0.0
    output: float = 0.0
    overhead: float = 0.0
    batches: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})
    client_batch: int = 1
    failing: Mapping[str, float] = field(default_factory=dict)
    pending: float = 0.0
    pending_growth: float = 0.0
    version: str = "1"
    config: Mapping[str, object] = field(default_factory=dict)

    def seconds_of(self, size: int) -> float:
        """Return an execution's seconds at a batch size."""
        return self.execution if isinstance(self.execution, (int, float)) else self.execution[size]

    def after(self, seconds: float) -> Counts:
        """Return the counters that this traffic makes in so many seconds from zero."""
        requests = self.rate * seconds
        items = requests * self.client_batch
        weight = sum(share * size for size, share in self.batches.items())
        executions = items / weight
        counts = {size: executions * share for size, share in self.batches.items()}
        # Each request of a batch books the whole batch's time once.
        in_requests = {size: n * size / self.client_batch for size, n in counts.items()}
        infer = sum(in_requests[size] * self.seconds_of(size) for size in counts)
        phases = self.queue + self.input + self.output + self.overhead
        if not phases and not infer:
            phases = 1e-6  # no request takes no time at all
        return Counts(
            requests=requests,
            items=items,
            executions=executions,
            failures={reason: rate * seconds for reason, rate in self.failing.items()},
            seconds=requests * phases + infer,
            queue=requests * self.queue,
            input=requests * self.input,
            infer=infer,
            output=requests * self.output,
            batches={size: (n, n * (self.seconds_of(size) + self.input + self.output)) for size, n in counts.items()},
        )


def model_config(
    name: str,
    *,
    backend: str = "python",
    max_batch: int = 0,
    groups: Sequence[Mapping[str, object]] = ({"kind": "KIND_CPU", "count": 1},),
    batching: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    """Return a model's effective configuration as the server answers it."""
    config: dict[str, object] = {
        "name": name,
        "backend": backend,
        "max_batch_size": max_batch,
        "instance_group": list(groups),
        **more,
    }
    return config if batching is None else {**config, "dynamic_batching": dict(batching)}


def ensemble_config(name: str, *steps: tuple[str, Sequence[str], Sequence[str]]) -> dict[str, object]:
    """Return an ensemble's configuration; a step is (model, tensors it reads, tensors it writes)."""
    return {
        "name": name,
        "platform": "ensemble",
        "ensemble_scheduling": {
            "step": [
                {
                    "model_name": model,
                    "input_map": {f"IN{i}": tensor for i, tensor in enumerate(reads)},
                    "output_map": {f"OUT{i}": tensor for i, tensor in enumerate(writes)},
                }
                for model, reads, writes in steps
            ]
        },
    }


def chain(name: str, *models: str) -> dict[str, object]:
    """Return the configuration of an ensemble that calls its models one after another."""
    return ensemble_config(name, *((model, (f"t{i}",), (f"t{i + 1}",)) for i, model in enumerate(models)))


Rows = Mapping[tuple[str, str], Counts]
Alter = Callable[[int, dict[tuple[str, str], Counts]], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTriton:
    """A server under steady traffic, read every `interval` seconds.

    Attributes:
        models: the model versions and their traffic.
        before: seconds the traffic has lasted at the first read.
        interval: seconds between reads; `times` overrides it with the reads' seconds after the first.
        alter: changes the counters of a read (its number, the rows), for resets, reloads and absurd values.
        extra_metrics: more lines of the metrics page by read number.
        cpu_busy: share of the host's processors in use, None without host samples.
        gpu: fields of an NVML sample's only GPU, None without NVML.

    """

    models: tuple[Stage, ...]
    before: float = 100.0
    interval: float = 5.0
    times: Sequence[float] | None = None
    alter: Alter = lambda _, rows: rows
    extra_metrics: Callable[[int], Iterable[str]] = lambda _: ()
    cpu_busy: float | None = 0.2
    gpu: Mapping[str, object] | None = None
    sources: tuple[BodyKind, ...] = (BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG)

    def scrapes(self, reads: int = 13) -> list[Scrape]:
        """Return all bodies of so many reads, in time order."""
        times = self.times if self.times is not None else [i * self.interval for i in range(reads)]
        found = [_scrape(BodyKind.CONFIG, 0.0, stage.config, stage.name) for stage in self.models if stage.config]
        found = found if BodyKind.CONFIG in self.sources else []
        for number, time in enumerate(times):
            found += self._read(number, time)
        return found

    def window(self, reads: int = 13) -> Window:
        """Return the window of so many reads."""
        return window_of(self.scrapes(reads))

    def evidence(self, reads: int = 13) -> WindowEvidence:
        """Return the window as evidence."""
        return WindowEvidence(self.window(reads))

    def explain(self, reads: int = 13, objective: Objective | None = None) -> Explanation:
        """Return the explanation of so many reads."""
        return explained(self.window(reads), objective)

    def without(self, *kinds: BodyKind) -> SyntheticTriton:
        """Return the same server with some sources closed."""
        return replace(self, sources=tuple(kind for kind in self.sources if kind not in kinds))

    def _read(self, number: int, time: float) -> list[Scrape]:
        rows = {(stage.name, stage.version): stage.after(self.before + time) for stage in self.models}
        altered = self.alter(number, rows)
        found = []
        if BodyKind.METRICS in self.sources:
            found.append(_scrape(BodyKind.METRICS, time, self._page(number, time, altered)))
        if BodyKind.STATISTICS in self.sources:
            found.append(_scrape(BodyKind.STATISTICS, time, statistics_body(altered)))
        if self.cpu_busy is not None:
            found.append(_scrape(BodyKind.HOST, time, host_body(START + time, self.cpu_busy)))
        if self.gpu is not None:
            sample = {"t": START + time, "gpus": [{"index": 0, "uuid": "GPU-0", **self.gpu}]}
            found.append(replace(_scrape(BodyKind.NVML, time, sample), server=""))
        return found

    def _page(self, number: int, time: float, rows: Rows) -> str:
        pending = [
            f'nv_inference_pending_request_count{{model="{stage.name}",version="{stage.version}"}} '
            f"{stage.pending + stage.pending_growth * time:.0f}"
            for stage in self.models
            if (stage.name, stage.version) in rows
        ]
        return metrics_page(rows, [*pending, *self.extra_metrics(number)])


_FAMILIES: Mapping[str, Callable[[Counts], float]] = {
    "nv_inference_request_success": lambda row: row.requests,
    "nv_inference_count": lambda row: row.items,
    "nv_inference_exec_count": lambda row: row.executions,
    "nv_inference_request_duration_us": lambda row: row.spent * US,
    "nv_inference_queue_duration_us": lambda row: row.queue * US,
    "nv_inference_compute_input_duration_us": lambda row: row.input * US,
    "nv_inference_compute_infer_duration_us": lambda row: row.infer * US,
    "nv_inference_compute_output_duration_us": lambda row: row.output * US,
}


def metrics_page(rows: Rows, extra: Iterable[str] = ()) -> str:
    """Return the counters as Triton's metrics page, with more lines at its end."""
    lines = []
    for family, pick in _FAMILIES.items():
        lines.append(f"# TYPE {family} counter")
        lines += [f'{family}{{model="{m}",version="{v}"}} {pick(row):.0f}' for (m, v), row in rows.items()]
    lines.append("# TYPE nv_inference_request_failure counter")
    for (model, version), row in rows.items():
        for reason, count in {"REJECTED": 0.0, "BACKEND": 0.0, "OTHER": 0.0, **row.failures}.items():
            labels = f'model="{model}",reason="{reason}",version="{version}"'
            lines.append(f"nv_inference_request_failure{{{labels}}} {count:.0f}")
    return "\n".join([*lines, *extra]) + "\n"


def statistics_body(rows: Rows) -> dict[str, object]:
    """Return the counters as the answer of the statistics extension."""

    def timed(count: float, seconds: float) -> dict[str, int]:
        return {"count": round(count), "ns": round(seconds * NS)}

    def row_of(name: str, version: str, row: Counts) -> dict[str, object]:
        return {
            "name": name,
            "version": version,
            "inference_count": round(row.items),
            "execution_count": round(row.executions),
            "inference_stats": {
                "success": timed(row.requests, row.spent),
                "fail": timed(sum(row.failures.values()), 0.0),
                "queue": timed(row.requests, row.queue),
                "compute_input": timed(row.requests, row.input),
                "compute_infer": timed(row.requests, row.infer),
                "compute_output": timed(row.requests, row.output),
            },
            "batch_stats": [
                {"batch_size": size, "compute_infer": timed(n, seconds)} for size, (n, seconds) in row.batches.items()
            ],
        }

    return {"model_stats": [row_of(name, version, row) for (name, version), row in rows.items()]}


def host_body(at: float, busy: float, cores: int = 4) -> dict[str, object]:
    """Return a host sample whose processors have been busy by this share since Unix second 0."""
    jiffies = at * 100 * cores
    return {
        "t": at,
        "cores": cores,
        "clk_tck": 100,
        "cpu_jiffies": {"user": jiffies * busy, "idle": jiffies * (1 - busy)},
    }


def _scrape(kind: BodyKind, time: float, body: object, name: str = "") -> Scrape:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Scrape(server=SERVER, kind=kind, at=START + time, mono=START + time, body=raw, name=name)


def explained(window: Window, objective: Objective | None = None, *, present: bool = False) -> Explanation:
    """Return the explanation of a window; `present` as `explain_evidence` takes it."""
    return explain_evidence(WindowEvidence(window), objective=objective, present=present)


def on(model: str, version: str | None = "1") -> Subject:
    """Return a model version of the synthetic server."""
    return Subject(server=SERVER, model=model, version=version)


def view_of(window: Window, model: str | None, version: str | None = "1") -> ModelView:
    """Return what the readers of a signal look at, over the whole window."""
    return ModelView(
        window=window,
        server=window.servers[SERVER],
        model=model,
        version=version,
        start=window.start,
        end=window.end,
    )


def restarted_at(read: int) -> Alter:
    """Return an alteration: from this read on, counters count from the read before."""
    base: dict[tuple[str, str], Counts] = {}

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        if number == read - 1:
            base.update(rows)
        return {key: row - base[key] for key, row in rows.items()} if number >= read else rows

    return alter


def only_between(model: str, first: int, last: int) -> Alter:
    """Return an alteration: a model is listed from one read to another, both included, counting from its first."""
    base: dict[tuple[str, str], Counts] = {}

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        if number == first - 1:
            base.update(rows)
        mine = [key for key in rows if key[0] == model]
        others = {key: row for key, row in rows.items() if key not in mine}
        if not first <= number <= last:
            return others
        return {**others, **{key: rows[key] - base[key] if base else rows[key] for key in mine}}

    return alter
