"""Reads a measurement out of what the server said: counters between two reads, traces that ended between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnostics.errors import CollectError
from diagnostics.window.traces import SpanStore, TracedRequest
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import ModelStatistics, Timed, parse_statistics
from tests.benchmark.deployment import Deployment
from tests.prediction.disturbance import MOST_LATE_IN_BURST_SECONDS, MOST_LATE_SECONDS, Machine
from tests.prediction.measured import Measured, Stage, bootstrap, mean_of, percentile
from tests.prediction.plan import Job, Pattern
from tests.prediction.sending import Row

P95 = 0.95
# Of requests that were answered between two reads; those that end at a read's very instant are on either side.
LEAST_TRACED = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """What a job brought: reads of the server, spans, and the client's rows; `started` in Unix seconds."""

    started: float
    scrapes: Sequence[Scrape]
    traces: Sequence[Scrape]
    rows: Sequence[Row]


class _Counters:
    """The increase of each model's counters between the first read and the last."""

    def __init__(self, scrapes: Sequence[Scrape]) -> None:
        reads = [scrape for scrape in scrapes if scrape.kind is BodyKind.STATISTICS and scrape.body is not None]
        if len(reads) < 2:
            raise CollectError("the server's statistics were not read twice")
        self.began, self.ended = reads[0].at, reads[-1].at
        self.first, self.last = (
            {one.name: one for one in parse_statistics(read.body or b"")} for read in (reads[0], reads[-1])
        )

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def timed(self, model: str, name: str) -> Timed:
        before, after = (getattr(read[model], name) for read in (self.first, self.last))
        return Timed(after.count - before.count, after.seconds - before.seconds)

    def executing(self, model: str) -> float:
        """Return the seconds in which its instances executed, each execution once."""
        return _executing(self.last[model]) - _executing(self.first[model])

    def batch_size_mean(self, model: str) -> float | None:
        before, after = self.first[model], self.last[model]
        executions = after.execution_count - before.execution_count
        return (after.inference_count - before.inference_count) / executions if executions else None


def _executing(row: ModelStatistics) -> float:
    return sum(batch.input.seconds + batch.infer.seconds + batch.output.seconds for batch in row.batches)


def read(job: Job, bodies: Bodies, machine: Machine) -> Measured:
    """Return what the bodies say of a job.

    Raises:
        CollectError: the statistics were not read twice, or no request was answered.

    """
    counters, entry = _Counters(bodies.scrapes), job.deployment.ensemble
    success = counters.timed(entry, "success")
    ended = [
        one
        for one in _answered(bodies.traces, [stage.name for stage in job.deployment.stages])
        if counters.began <= one.end_seconds < counters.ended
    ]
    if not success.count or not ended:
        raise CollectError("no request was answered and traced", where=job.name)
    timed = [(one.end_seconds, one.root.seconds) for one in ended]
    mean = mean_of(success.seconds / success.count, timed)
    late = MOST_LATE_IN_BURST_SECONDS if job.load.pattern is Pattern.BURSTS else MOST_LATE_SECONDS
    failed = sum(1 for row in bodies.rows if row[3] != 200 and job.settle <= row[0] < job.settle + counters.seconds)
    return Measured(
        name=job.name,
        began=counters.began - bodies.started,
        seconds=counters.seconds,
        mean=mean,
        p95=bootstrap(timed, lambda values: percentile(values, P95)),
        throughput=success.count / counters.seconds,
        failed=failed / counters.seconds,
        stages=tuple(_stages(job.deployment, counters, ended, mean.value)),
        load_seconds=job.load_seconds,
        machine=machine,
        disturbed="; ".join(
            filter(None, (machine.disturbance(late), _untraced(len(ended), success.count, job.trace_rate)))
        ),
    )


def _untraced(traced: int, answered: int, rate: int) -> str:
    """Say what lacks; of one in `rate`, those traced last may still be under way."""
    enough = LEAST_TRACED * answered / rate - (rate > 1)
    return "" if traced >= enough else f"{traced} of {answered} requests were traced"


def _answered(traces: Sequence[Scrape], stages: Sequence[str]) -> Sequence[TracedRequest]:
    """Return the requests that went through all stages: one that is refused ends where it is."""
    store = SpanStore()
    for scrape in traces:
        store.add(scrape.body or b"", scrape.at)
    return [one for one in store.traces().requests if set(stages) <= {visit.model for visit in one.visits()}]


def _stages(
    deployment: Deployment, counters: _Counters, ended: Sequence[TracedRequest], mean: float
) -> Sequence[Stage]:
    waits = _waits(ended)
    stages = [_stage(stage.name, stage.instances, counters, waits) for stage in deployment.stages]
    engine = deployment.engine
    if engine is not None:
        # Its work is on no counter of Triton's: what the other stages of a chain leave of a request is the engine's.
        hidden = mean - sum(counters.timed(s.model, "success").seconds for s in stages) / max(
            counters.timed(deployment.ensemble, "success").count, 1
        )
        taken = counters.timed(engine.name, "success").count / counters.seconds * hidden / engine.slots
        stages.append(
            Stage(model=engine.name, queue_mean=None, queue_p95=None, busy_share=min(taken, 1.0), batch_size_mean=None)
        )
    return stages


def _stage(model: str, instances: int, counters: _Counters, waits: Mapping[str, Sequence[float]]) -> Stage:
    queue = counters.timed(model, "queue")
    seen = waits.get(model, ())
    return Stage(
        model=model,
        queue_mean=queue.seconds / queue.count if queue.count else None,
        queue_p95=percentile(seen, P95) if seen else None,
        busy_share=counters.executing(model) / (counters.seconds * instances),
        batch_size_mean=counters.batch_size_mean(model),
    )


def _waits(ended: Sequence[TracedRequest]) -> Mapping[str, Sequence[float]]:
    waits: dict[str, list[float]] = {}
    for request in ended:
        for visit in request.visits():
            if visit.queue_seconds is not None:
                waits.setdefault(visit.model, []).append(visit.queue_seconds)
    return waits
