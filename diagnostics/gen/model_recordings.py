"""Recording rules on models: what their requests wait for, per server, and per job over its replicas.

None sums over models: an ensemble's row repeats the compute of its members, so a total would count it twice.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.gen.recording import REPLICAS, Recording, average, by, largest, rate, ratio, seconds
from diagnostics.units import Unit

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
