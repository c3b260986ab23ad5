"""Unit tests of rules for `promtool test rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnostics import names
from diagnostics.gen.alert import Alert, Situation, group_name, series
from diagnostics.gen.example_series import (
    OTHER_INSTANCE,
    SAFETY,
    ExamplePhase,
    ExampleSeries,
    Load,
    engine_load,
    model_load,
    rendered,
)
from diagnostics.gen.recordings import (
    BATCH_SIZE,
    BUSY_INSTANCES,
    BUSY_SHARE,
    CACHE_RATIO,
    COMPUTE_MEAN,
    FAILURE_RATIO,
    JOB,
    LEVEL,
    QUEUE_MEAN,
    QUEUE_SHARE,
    REQUEST_MEAN,
    REQUESTS,
    WAITING,
)
from diagnostics.gen.symptoms import PREFIX
from diagnostics.gen.yaml_text import Tree

_AFTER_MINUTES = 3


def plain_situations(
    labels: Mapping[str, str], series: str, *, hold: int, bad: str, good: str, silent: Mapping[str, str]
) -> tuple[Situation, ...]:
    """Return the situations of an alert on one series whose value says it all.

    Args:
        labels: labels of the alert that fires.
        series: the example's series.
        hold: minutes for which it must be bad.
        bad: samples while the expression holds; `_` is no sample.
        good: samples once it no longer does; `stale` is the series' end.
        silent: series under which the alert must stay silent, with their constant sample.

    """
    found = (fires_and_resolves(labels, {series: (bad, good)}, hold=hold),)
    return (*found, stays_silent({name: samples(value, hold + _AFTER_MINUTES) for name, value in silent.items()}, hold))


def fires_and_resolves(
    labels: Mapping[str, str], series: Mapping[str, tuple[str, str]], *, hold: int, keep: int = 0
) -> Situation:
    """Return the situation in which series are bad for long enough, then good: the two samples of each.

    `hold` and `keep` are minutes for which it must be bad, and for which the alert goes on once it is good.
    """
    last = hold + keep + _AFTER_MINUTES
    kept = ((hold + keep, (labels,)),) if keep else ()
    return Situation(
        title="fires once it has held long enough and not before, and resolves when the cause is gone",
        series={
            name: f"{samples(bad, hold)} {good if good == 'stale' else samples(good, keep + _AFTER_MINUTES)}"
            for name, (bad, good) in series.items()
        },
        expect=((hold - 1, ()), (hold, (labels,)), *kept, (last, ())),
    )


def stays_silent(series: Mapping[str, str], hold: int) -> Situation:
    """Return the situation in which nothing may fire."""
    return Situation(
        title="stays silent when the cause is another one or gone",
        series=series,
        expect=((hold + _AFTER_MINUTES, ()),),
    )


def samples(value: str, last: int) -> str:
    """Return a sample for each minute from 0 to `last`; `1x2` means 1 1 1 but `_x2` only two gaps."""
    return f"{value}x{last + 1 if value == '_' else last}"


def rule_test(alert: Alert, runbooks: str, recorded: Sequence[str]) -> Tree:
    """Return the test file of one alert; it names the rule files relative to itself.

    Args:
        alert: the alert.
        runbooks: address of the folder of the runbooks.
        recorded: names of the files, and groups, of recording rules that its expression needs, in their order.

    """
    files = [f"../recording/{name}.yaml" for name in recorded]
    groups = [group_name("Triton", name) for name in recorded]
    return {
        "rule_files": [*files, f"../alerts/{alert.group}.yaml"],
        **({"group_eval_order": [*groups, alert.group_name]} if recorded else {}),
        "evaluation_interval": "1m",
        "tests": [_test(alert, situation, runbooks) for situation in alert.situations],
    }


def _test(alert: Alert, situation: Situation, runbooks: str) -> Tree:
    return {
        "name": situation.title,
        "interval": "1m",
        "input_series": [{"series": series, "values": text} for series, text in situation.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": alert.name,
                "exp_alerts": [alert.expected(labels, runbooks) for labels in firing],
            }
            for minute, firing in situation.expect
        ],
    }


_FILES = ("models", "engines", "servers")
# Rules divide floats; promtool compares exactly.
_ROUNDED = "0.000001"
_MINUTES = 20
_LOOK = 15
_RESTART = 10
_P95 = "job_model:triton_first_response_seconds:p95_5m"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A model's series, and what is recorded of it; None for a metric that must be absent."""

    series: Mapping[str, str]
    values: Mapping[str, float | None]
    minute: int = _LOOK


def recording_test() -> Tree:
    """Return the test file; it names the rule files relative to itself. All cases are models of one test."""
    cases = _cases()
    return {
        "rule_files": [f"../recording/{name}.yaml" for name in _FILES],
        "group_eval_order": [group_name(PREFIX, name) for name in _FILES],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": "each model is recorded as its name says",
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": text} for case in cases for name, text in case.series.items()
                ],
                "promql_expr_test": [
                    _look(metric, case.minute, value) for case in cases for metric, value in case.values.items()
                ],
            }
        ],
    }


def _look(metric: str, minute: int, value: float | None) -> Tree:
    labels = "{" + metric.partition("{")[2]
    return {
        "expr": f"round({metric}, {_ROUNDED})",
        "eval_time": f"{minute}m",
        "exp_samples": [] if value is None else [{"labels": labels, "value": round(value, 6)}],
    }


def _model(name: str, instance: str = SAFETY["instance"]) -> Mapping[str, str]:
    return {**SAFETY, "model": name, "instance": instance}


def _over_replicas(metric: str, model: str) -> str:
    return series(metric.replace(LEVEL, JOB), {"job": SAFETY["job"], "model": model})


def _steady(load: Load) -> Mapping[str, str]:
    return rendered([ExamplePhase(load=load, minutes=_MINUTES)])


def _cases() -> tuple[_Case, ...]:
    return (
        *(case() for case in (_sparse, _without_traffic, _restarted, _replicas, _split_by_gpu, _underflowing)),
        *(case() for case in (_batching, _cached, _given_up, _first_response, _idle_engine, _older_engine)),
    )


def _sparse() -> _Case:
    """One request in the five minutes before, which is 0.003 per second."""
    on = _model("one-request-in-five-minutes")
    load = model_load(on, queue_ms=60, requests=1)
    means = {QUEUE_MEAN: 0.06, REQUEST_MEAN: 0.08, QUEUE_SHARE: 0.75}
    return _Case(
        series={name: f"0x2 {line.value:.0f}x10" for name, line in load.items()},
        minute=6,
        values={series(metric, on): value for metric, value in means.items()}
        | {_over_replicas(QUEUE_MEAN, on["model"]): 0.06},
    )


def _without_traffic() -> _Case:
    on = _model("no-traffic-no-mean")
    absent = {series(metric, on): None for metric in (QUEUE_MEAN, BATCH_SIZE, FAILURE_RATIO)}
    return _Case(series=_steady(model_load(on, requests=0)), values={**absent, series(REQUESTS, on): 0.0})


def _restarted() -> _Case:
    on = _model("restarted")
    load = model_load(on, queue_ms=60)
    phases = [
        ExamplePhase(load=load, minutes=_RESTART),
        ExamplePhase(load=load, minutes=_MINUTES - _RESTART, restarted=True),
    ]
    metrics = (series(QUEUE_MEAN, on), _over_replicas(QUEUE_MEAN, on["model"]))
    return _Case(series=rendered(phases), minute=_RESTART + 1, values=dict.fromkeys(metrics, 0.06))


def _replicas() -> _Case:
    """A mean of the replicas' means would be 0.05."""
    name = "replicas-count-by-traffic"
    one, other = _model(name), _model(name, OTHER_INSTANCE)
    busy = model_load(one, requests=900, queue_ms=0)
    slow = model_load(other, requests=100, queue_ms=100)
    return _Case(
        series={**_steady(busy), **_steady(slow)},
        values={
            series(QUEUE_MEAN, other): 0.1,
            _over_replicas(QUEUE_MEAN, name): 0.01,
            _over_replicas(REQUESTS, name): 1000 / 60,
        },
    )


def _split_by_gpu() -> _Case:
    """Counters come once per GPU, while failures and the pending count come once."""
    on = _model("split-by-gpu")
    split = {
        name.replace("{", f'{{{names.GPU_UUID}="GPU-{gpu}", '): line
        for gpu in (1, 2)
        for name, line in model_load(on, queue_ms=10).items()
        if names.REQUEST_FAILURE not in name and names.PENDING_REQUESTS not in name
    }
    failed = {name: line for name, line in model_load(on, failed=400).items() if names.REQUEST_FAILURE in name}
    return _Case(
        series=_steady({**split, **failed}),
        values={series(QUEUE_MEAN, on): 0.01, series(REQUESTS, on): 20.0, series(FAILURE_RATIO, on): 0.25},
    )


def _underflowing() -> _Case:
    """The queue's counter jumps by 2^64 ns: a duration below zero is none."""
    on = _model("underflowing")
    found = dict(_steady(model_load(on, queue_ms=10)))
    found[series(names.QUEUE_DURATION, on)] = "0+6000000x9 18446744133709552+6000000x9"
    return _Case(series=found, minute=12, values={series(QUEUE_MEAN, on): None, series(COMPUTE_MEAN, on): 0.02})


def _batching() -> _Case:
    on = _model("batching")
    counted = series("diag_model_instances", {"server": on["instance"], "model": on["model"], "version": "1"})
    values = {BATCH_SIZE: 4.0, COMPUTE_MEAN: 0.02, BUSY_INSTANCES: 0.05, BUSY_SHARE: 0.025}
    return _Case(
        series={**_steady(model_load(on, batch=4)), counted: "2x20"},
        values={series(metric, on): value for metric, value in values.items()},
    )


def _cached() -> _Case:
    """Nine requests in ten are cache hits, which no instance computes."""
    on = _model("cached")
    load = {
        **model_load(on, requests=60),
        series(names.REQUEST_SUCCESS, on): ExampleSeries(value=600, counter=True),
        series(names.CACHE_HITS, on): ExampleSeries(value=540, counter=True),
        series(names.CACHE_MISSES, on): ExampleSeries(value=60, counter=True),
    }
    return _Case(series=_steady(load), values={series(COMPUTE_MEAN, on): 0.02, series(CACHE_RATIO, on): 0.9})


def _given_up() -> _Case:
    on = _model("given-up-by-clients")
    canceled = series(names.REQUEST_FAILURE, {**on, names.REASON: "CANCELED"})
    return _Case(
        series={**_steady(model_load(on, requests=540, failed=60)), canceled: "0+600x19"},
        values={series(FAILURE_RATIO, on): 0.1, _over_replicas(FAILURE_RATIO, on["model"]): 0.1},
    )


def _first_response() -> _Case:
    """Half of the first responses come within 100 ms, the other half within 500 ms, in equal parts of two replicas."""
    buckets = {"100": 30, "500": 60, "2000": 60, "5000": 60, "+Inf": 60}
    name = "first-response"
    load = {
        series(f"{names.FIRST_RESPONSE}_bucket", {**_model(name, instance), "le": bound}): ExampleSeries(
            value=count, counter=True
        )
        for bound, count in buckets.items()
        for instance in (SAFETY["instance"], OTHER_INSTANCE)
    }
    return _Case(series=_steady(load), values={_over_replicas(_P95, name): 0.46})


def _idle_engine() -> _Case:
    on = _model("idle-engine-is-frozen")
    load = _steady(engine_load(on, waiting=5, scheduled=3))
    return _Case(
        series={name: text.replace("+1800x", "+0x") for name, text in load.items()}, values={series(WAITING, on): None}
    )


def _older_engine() -> _Case:
    """Releases before 0.17 do not export how many wait."""
    on = _model("older-engine")
    load = _steady(engine_load(on, waiting=5, scheduled=3))
    return _Case(
        series={name: text for name, text in load.items() if '"waiting"' not in name}, values={series(WAITING, on): 5.0}
    )
