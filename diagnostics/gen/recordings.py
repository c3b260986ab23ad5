"""Recording rules on models, engines, servers and GPUs, and the PromQL that all of them are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from diagnostics import names
from diagnostics.gen.yaml_text import Tree
from diagnostics.units import Unit

# Covers four scrapes of up to 75 s, the least that a rate needs when one of them fails.
RANGE = "5m"
RANGE_SECONDS = 300
# Microseconds per second of a million requests at once. More is a subtraction below zero, which Triton adds unsigned
# when a backend passes times out of order (core, `infer_stats.cc`).
_IMPLAUSIBLE = "1e12"
_MICRO = "1e6"
# Whose series are replicas of each other; labels that do not exist do no harm.
REPLICAS = ("cluster", "namespace", "job")
SERVER = (*REPLICAS, "instance")
_RECORDED = re.compile(r"\b[a-z_]+:triton_[a-z_]+:[a-z0-9_]+\b", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recording rule.

    Attributes:
        name: level:metric:operations.
        expr: PromQL.
        unit: of the recorded value.
        meaning: one sentence.
        without_history: what stands for the rule where nothing recorded it; None: `expr` does.

    """

    name: str
    expr: str
    unit: Unit
    meaning: str
    without_history: str | None = None

    def rule(self) -> Tree:
        """Return the recording rule."""
        return {"record": self.name, "expr": self.expr}


def expanded(expr: str, recorded: Mapping[str, Recording]) -> str:
    """Return `expr` with every recorded name replaced by what it stands for, so that it needs no rule to be loaded."""

    def source(at: re.Match[str]) -> str:
        found = recorded[at[0]]
        return f"({found.without_history or expanded(found.expr, recorded)})"

    return _RECORDED.sub(source, expr)


def rate(selector: str, *dropped: str) -> str:
    """Return a counter's increase per second.

    A model's series may be split by GPU, in families of which each has its own split, so `gpu_uuid` is summed away.
    """
    return _without_gpu("sum", f"rate({selector}[{RANGE}])", dropped)


def seconds(*counters: str) -> str:
    """Return the increase per second of counters of microseconds, as seconds per second."""
    parts = (_without_gpu("sum", f"rate({counter}[{RANGE}]) < {_IMPLAUSIBLE}", ()) for counter in counters)
    text = " + ".join(parts)
    return f"({text}) / {_MICRO}" if len(counters) > 1 else f"{text} / {_MICRO}"


def average(selector: str, *dropped: str) -> str:
    """Return a gauge's mean over the range."""
    return _without_gpu("sum", f"avg_over_time({selector}[{RANGE}])", dropped)


def largest(selector: str) -> str:
    """Return the largest value among the series that GPUs split a model's gauge into."""
    return _without_gpu("max", selector, ())


def ratio(part: str, whole: str) -> str:
    """Return part ÷ whole, and nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def by(labels: Iterable[str]) -> str:
    """Return the clause of an aggregation that keeps these labels."""
    return f"by ({', '.join(labels)})"


def _without_gpu(operator: str, expr: str, dropped: Iterable[str]) -> str:
    return f"{operator} without ({', '.join((names.GPU_UUID, *dropped))}) ({expr})"


GPU = "instance_gpu"
GPU_POWER = f"{GPU}:triton_gpu_power:ratio5m"
GPU_MEMORY = f"{GPU}:triton_gpu_memory:ratio5m"
GPU_UTILIZATION = f"{GPU}:triton_gpu_utilization:avg5m"
GPU_WATTS = f"{GPU}:triton_gpu_energy_watts:rate5m"
CPU = "instance:triton_cpu_utilization:avg5m"
CPU_MEMORY = "instance:triton_cpu_memory:ratio5m"
PINNED_MEMORY = "instance:triton_pinned_memory:ratio5m"
IS_TRITON = "instance:triton_server:info"

_EXPORTED = f"{names.REQUEST_SUCCESS} or {names.PINNED_MEMORY_TOTAL}"
_NOW = f"group {by(SERVER)} ({_EXPORTED})"
_BEFORE = f"last_over_time({IS_TRITON}[10m]) and on ({', '.join(SERVER)}) up"


def _mean(metric: str) -> str:
    return f"avg_over_time({metric}[{RANGE}])"


def _of(name: str, expr: str, unit: Unit, meaning: str) -> Recording:
    return Recording(name=name, expr=expr, unit=unit, meaning=meaning)


SERVER_RECORDINGS = (
    Recording(
        name=IS_TRITON,
        expr=f"{_NOW} or {_BEFORE}",
        unit=Unit.COUNT,
        meaning="1 for each target that exports Triton's metrics, or did so last and is still a target.",
        without_history=f"group {by(SERVER)} (last_over_time({names.REQUEST_SUCCESS}[1h]))",
    ),
    _of(
        GPU_POWER,
        ratio(_mean(names.GPU_POWER), _mean(names.GPU_POWER_LIMIT)),
        Unit.RATIO,
        "Power drawn of the power limit.",
    ),
    _of(
        GPU_MEMORY,
        ratio(_mean(names.GPU_MEMORY_USED), _mean(names.GPU_MEMORY_TOTAL)),
        Unit.RATIO,
        "Memory in use by all processes.",
    ),
    _of(
        GPU_UTILIZATION,
        _mean(names.GPU_UTILIZATION),
        Unit.RATIO,
        "Share of time with any kernel running, not of the processors in use. 0 also when the sensor fails.",
    ),
    _of(GPU_WATTS, f"rate({names.GPU_ENERGY}[{RANGE}])", Unit.WATTS, "Mean power by the energy counter."),
    _of(CPU, _mean(names.CPU_UTILIZATION), Unit.RATIO, "Processors in use, of the host and not of the container."),
    _of(
        CPU_MEMORY,
        ratio(_mean(names.CPU_MEMORY_USED), _mean(names.CPU_MEMORY_TOTAL)),
        Unit.RATIO,
        "Memory of the host in use.",
    ),
    _of(
        PINNED_MEMORY,
        ratio(_mean(names.PINNED_MEMORY_USED), _mean(names.PINNED_MEMORY_TOTAL)),
        Unit.RATIO,
        "Pinned memory pool in use; beyond it Triton copies through pageable memory.",
    ),
)


LEVEL = "instance_model_version"
JOB = "job_model"

REQUESTS = f"{LEVEL}:triton_requests:rate5m"
FAILURES = f"{LEVEL}:triton_failures:rate5m"
INFERENCES = f"{LEVEL}:triton_inferences:rate5m"
EXECUTIONS = f"{LEVEL}:triton_executions:rate5m"
CACHE_HITS = f"{LEVEL}:triton_cache_hits:rate5m"
REQUEST_SECONDS = f"{LEVEL}:triton_request_seconds:rate5m"
QUEUE_SECONDS = f"{LEVEL}:triton_queue_seconds:rate5m"
COMPUTE_SECONDS = f"{LEVEL}:triton_compute_seconds:rate5m"
FAILURE_RATIO = f"{LEVEL}:triton_failures:ratio5m"
BATCH_SIZE = f"{LEVEL}:triton_batch_size:mean5m"
REQUEST_MEAN = f"{LEVEL}:triton_request_seconds:mean5m"
QUEUE_MEAN = f"{LEVEL}:triton_queue_seconds:mean5m"
COMPUTE_MEAN = f"{LEVEL}:triton_compute_seconds:mean5m"
QUEUE_SHARE = f"{LEVEL}:triton_queue_share:ratio5m"
BUSY_INSTANCES = f"{LEVEL}:triton_busy_instances:upper5m"
BUSY_SHARE = f"{LEVEL}:triton_busy_share:upper5m"
PENDING = f"{LEVEL}:triton_pending:avg5m"
CACHE_RATIO = f"{LEVEL}:triton_cache_hits:ratio5m"
LOAD_SECONDS = f"{LEVEL}:triton_load_seconds:max"
FIRST_RESPONSE = f"{JOB}:triton_first_response_milliseconds_bucket:rate5m"

_INSTANCES = "diag_model_instances"
_CANCELED = 'reason!="CANCELED"'
# Cache hits are requests that nothing computed; servers without a cache export none.
_COMPUTED = f"{REQUESTS} - ({CACHE_HITS} or {REQUESTS} * 0)"
_SERVER_NAME = f'label_replace({_INSTANCES}, "instance", "$1", "server", "(.+)")'
_COUNTED = f"max by (instance, model, version) ({_SERVER_NAME})"


def _counts() -> tuple[Recording, ...]:
    return (
        _rule(REQUESTS, rate(names.REQUEST_SUCCESS), Unit.PER_SECOND, "Requests answered; a client's batch is one."),
        _rule(
            FAILURES,
            rate(f"{names.REQUEST_FAILURE}{{{_CANCELED}}}", names.REASON),
            Unit.PER_SECOND,
            "Requests failed, without those that clients gave up. Triton counts most failures of an ensemble twice.",
        ),
        _rule(
            FAILURE_RATIO,
            ratio(FAILURES, f"{REQUESTS} + {FAILURES}"),
            Unit.RATIO,
            "Share of requests that failed; of an ensemble an upper bound.",
        ),
        _rule(INFERENCES, rate(names.INFERENCE_COUNT), Unit.PER_SECOND, "Items executed, without cache hits."),
        _rule(EXECUTIONS, rate(names.EXECUTION_COUNT), Unit.PER_SECOND, "Executions, each of one batch."),
        _rule(BATCH_SIZE, ratio(INFERENCES, EXECUTIONS), Unit.COUNT, "Mean items per execution."),
    )


def _times() -> tuple[Recording, ...]:
    compute = (names.INPUT_DURATION, names.INFER_DURATION, names.OUTPUT_DURATION)
    return (
        _rule(
            REQUEST_SECONDS,
            seconds(names.REQUEST_DURATION),
            Unit.SECONDS,
            "Per second: time of the requests that ended.",
        ),
        _rule(QUEUE_SECONDS, seconds(names.QUEUE_DURATION), Unit.SECONDS, "Per second: of it, waiting in the queue."),
        _rule(
            COMPUTE_SECONDS,
            seconds(*compute),
            Unit.SECONDS,
            "Per second: of it, input, inference and output. Each request of a batch counts the whole batch.",
        ),
        _rule(
            CACHE_HITS,
            rate(names.CACHE_HITS),
            Unit.PER_SECOND,
            "Requests answered from the response cache.",
        ),
        _rule(REQUEST_MEAN, ratio(REQUEST_SECONDS, REQUESTS), Unit.SECONDS, "Mean time of a request in the server."),
        _rule(QUEUE_MEAN, ratio(QUEUE_SECONDS, REQUESTS), Unit.SECONDS, "Mean wait of a request in the queue."),
        _rule(
            COMPUTE_MEAN,
            ratio(COMPUTE_SECONDS, _COMPUTED),
            Unit.SECONDS,
            "Mean compute of a request that was no cache hit; of an ensemble the sum of its members'.",
        ),
        _rule(
            QUEUE_SHARE,
            ratio(QUEUE_SECONDS, f"{QUEUE_SECONDS} + {COMPUTE_SECONDS}"),
            Unit.RATIO,
            "Share of the queue in a model's own time; an ensemble's row has no queue, its members' have.",
        ),
    )


def _load() -> tuple[Recording, ...]:
    return (
        _rule(
            BUSY_INSTANCES,
            f"{COMPUTE_MEAN} * {EXECUTIONS}",
            Unit.COUNT,
            "At most so many instances were busy: too high where batches differ in size, and not meant for ensembles "
            "and engines.",
        ),
        _rule(
            BUSY_SHARE,
            f"clamp_max({BUSY_INSTANCES} / on (instance, model, version) group_left () ({_COUNTED} > 0), 1)",
            Unit.RATIO,
            "The same per instance, at most 1; only where the diagnosis service exports how many there are.",
        ),
        _rule(PENDING, average(names.PENDING_REQUESTS), Unit.COUNT, "Mean number of requests that wait."),
        _rule(
            CACHE_RATIO,
            ratio(CACHE_HITS, f"{CACHE_HITS} + {rate(names.CACHE_MISSES)}"),
            Unit.RATIO,
            "Share of look-ups that the response cache answered.",
        ),
        _rule(LOAD_SECONDS, largest(names.LOAD_DURATION), Unit.SECONDS, "How long the last load took."),
    )


def _replicas() -> tuple[Recording, ...]:
    def total(metric: str) -> Recording:
        name = metric.replace(LEVEL, JOB)
        unit, text = (Unit.SECONDS, "Seconds") if "_seconds" in metric else (Unit.PER_SECOND, "Number")
        expr = f"sum {by((*REPLICAS, names.MODEL))} ({metric})"
        return _rule(name, expr, unit, f"{text} per second, over replicas and versions.")

    def of(metric: str) -> str:
        return metric.replace(LEVEL, JOB)

    requests, failures = of(REQUESTS), of(FAILURES)
    means = ((REQUEST_MEAN, REQUEST_SECONDS), (QUEUE_MEAN, QUEUE_SECONDS), (COMPUTE_MEAN, COMPUTE_SECONDS))
    return (
        *(total(one) for one in (REQUESTS, FAILURES, REQUEST_SECONDS, QUEUE_SECONDS, COMPUTE_SECONDS)),
        _rule(
            of(FAILURE_RATIO),
            ratio(failures, f"{requests} + {failures}"),
            Unit.RATIO,
            "Share of failed requests over replicas.",
        ),
        *(
            _rule(of(mean), ratio(of(part), requests), Unit.SECONDS, "Mean per request over replicas.")
            for mean, part in means
        ),
    )


def _first_response() -> tuple[Recording, ...]:
    bucket = rate(f"{names.FIRST_RESPONSE}_bucket")
    kept = by((*REPLICAS, names.MODEL, "le"))
    quantiles = (
        _rule(
            f"{JOB}:triton_first_response_seconds:p{percent}_5m",
            # An empty histogram gives NaN, which no comparison lets through.
            f"histogram_quantile({percent / 100:g}, {FIRST_RESPONSE}) / 1e3 >= 0",
            Unit.SECONDS,
            f"{percent} % of first responses came within; never more than the last bucket's bound, by default 5 s.",
        )
        for percent in (50, 95, 99)
    )
    text = "First responses by bucket, whose bounds `le` are milliseconds; needs `histogram_latencies=true`."
    return (_rule(FIRST_RESPONSE, f"sum {kept} ({bucket})", Unit.PER_SECOND, text), *quantiles)


def _rule(name: str, expr: str, unit: Unit, meaning: str) -> Recording:
    return Recording(name=name, expr=expr, unit=unit, meaning=meaning)


MODEL_RECORDINGS = (*_counts(), *_times(), *_load(), *_replicas(), *_first_response())


_PREFIX = f"{LEVEL}:triton_engine"
ITERATIONS = f"{_PREFIX}_iterations:rate5m"
ACTIVE = f"{_PREFIX}_active_requests:avg5m"
SCHEDULED = f"{_PREFIX}_scheduled_requests:avg5m"
CONTEXT = f"{_PREFIX}_context_requests:avg5m"
MOST = f"{_PREFIX}_max_requests:avg5m"
WAITING = f"{_PREFIX}_waiting_requests:avg5m"
PAUSED = f"{_PREFIX}_paused_requests:avg5m"
SLOT_FILL = f"{_PREFIX}_slot_fill:ratio5m"
KV_USED = f"{_PREFIX}_kv_used:ratio5m"
_KV = f"{_PREFIX}_kv"


def _gauge(family: str, label: str, value: str) -> str:
    """Return the mean of one label value's series, without that label."""
    return f'sum without ({label}) (avg_over_time({family}{{{label}="{value}"}}[{RANGE}]))'


def _moving(expr: str) -> str:
    return f"({expr}) and {ITERATIONS} > 0" if " or " in expr else f"{expr} and {ITERATIONS} > 0"


def _of_engine(name: str, expr: str, meaning: str, unit: Unit = Unit.COUNT) -> Recording:
    return Recording(name=name, expr=expr, unit=unit, meaning=meaning)


def _requests() -> tuple[Recording, ...]:
    def moving(value: str) -> str:
        return _moving(_gauge(names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, value))

    # Releases before 0.17 export no waiting requests; sampled apart, the difference may be below 0.
    waiting = f"{_gauge(names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, 'waiting')} or {ACTIVE} - {SCHEDULED}"
    return (
        _of_engine(ACTIVE, moving("active"), "Requests that the engine holds."),
        _of_engine(SCHEDULED, moving("scheduled"), "Of these, requests in an iteration's batch."),
        _of_engine(CONTEXT, moving("context"), "Of these, requests whose prompt is being read."),
        _of_engine(MOST, moving("max"), "Most requests that the engine runs at once."),
        _of_engine(WAITING, f"clamp_min({waiting}, 0) and {ITERATIONS} > 0", "Requests that wait inside the engine."),
        _of_engine(SLOT_FILL, ratio(SCHEDULED, MOST), "Share of the engine's slots in use.", Unit.RATIO),
    )


def _cache() -> tuple[Recording, ...]:
    def gauge(value: str) -> str:
        return _gauge(names.ENGINE_KV, names.ENGINE_KV_TYPE, value)

    blocks = (("used", "Blocks in use."), ("free", "Blocks that are free."), ("max", "Blocks that there are."))
    reused = f'{names.ENGINE_KV}{{{names.ENGINE_KV_TYPE}="reused"}}'
    fraction = f"{gauge('fraction')} or {ratio(gauge('used'), gauge('max'))}"
    return (
        *(
            _of_engine(f"{_KV}_{value}_blocks:avg5m", _moving(gauge(value)), f"KV cache: {text}")
            for value, text in blocks
        ),
        _of_engine(f"{_KV}_block_tokens:avg5m", _moving(gauge("tokens_per")), "KV cache: tokens that a block holds."),
        _of_engine(
            f"{_KV}_reused_blocks:rate5m",
            f"sum without ({names.ENGINE_KV_TYPE}) (rate({reused}[{RANGE}]))",
            "KV cache: blocks reused; a gauge that only grows.",
            Unit.PER_SECOND,
        ),
        _of_engine(KV_USED, _moving(fraction), "KV cache: share of blocks in use.", Unit.RATIO),
    )


def _batcher() -> tuple[Recording, ...]:
    def moving(value: str) -> str:
        return _moving(_gauge(names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, value))

    return (
        _of_engine(PAUSED, moving("paused_requests"), "Requests paused for want of KV cache."),
        _of_engine(
            f"{_PREFIX}_generation_requests:avg5m", moving("generation_requests"), "Requests that generate tokens."
        ),
        _of_engine(
            f"{_PREFIX}_context_tokens:avg5m",
            moving("total_context_tokens"),
            "Tokens of prompts that an iteration reads.",
        ),
    )


def _memory() -> tuple[Recording, ...]:
    return tuple(
        _of_engine(
            f"{_PREFIX}_{where}_memory_bytes:avg5m",
            _gauge(names.ENGINE_MEMORY, names.ENGINE_MEMORY_TYPE, where),
            f"Memory of the engine's runtime ({where}); neither weights nor KV cache.",
            Unit.BYTES,
        )
        for where in ("gpu", "cpu", "pinned")
    )


def _iterations() -> Recording:
    counter = f'{names.ENGINE_GENERAL}{{{names.ENGINE_GENERAL_TYPE}="iteration_counter"}}'
    expr = f"sum without ({names.ENGINE_GENERAL_TYPE}) (rate({counter}[{RANGE}]))"
    return _of_engine(ITERATIONS, expr, "Iterations of the engine; 0 while it is idle.", Unit.PER_SECOND)


ENGINE_RECORDINGS = (_iterations(), *_requests(), *_cache(), *_batcher(), *_memory())
