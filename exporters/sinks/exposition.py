"""Verdicts as Prometheus metrics: findings, what could not be judged, and signals that Triton's own page cannot give.

`server` is the name that Prometheus shows as `instance` of the Triton. Labels that do not apply are empty, which to
Prometheus is the same as absent. The alerts of `diagnostics.gen.finding_alerts` are over `diag_finding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.evidence.evidence import Evidence
from diagnostics.gen.finding_alerts import FINDING, severity
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.engine import ENGINE_SLOT_FILL, ENGINE_WAIT_SECONDS
from diagnostics.signals.engine_cache import ENGINE_KV_USED
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_SHARE
from diagnostics.signals.gaps import OVERHEAD_SECONDS
from diagnostics.signals.gpu import GPU_MEMORY_USED, GPU_SM_ACTIVE, GPU_TIME_USED
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_SIZE,
    COMPUTE_SECONDS,
    QUEUE_SECONDS,
    REQUEST_RATE,
    REQUEST_SECONDS,
)
from exporters.sinks.family import MOST_SUBJECTS, MetricFamily, Row
from exporters.sinks.rebuilding import rows_to_rebuild

_SUBJECT = ("server", "model", "version", "gpu", "ensemble")
_FINDING = ("deployment", "check", *_SUBJECT)


VERDICT = MetricFamily(
    name="diag_verdict",
    help="1 for what is said of the deployment now, 0 for all else.",
    labels=("deployment", "verdict"),
)
FOUND = MetricFamily(
    name=FINDING,
    help="1 for each finding of the newest verdict, 0 for one that is too small to act on.",
    labels=_FINDING,
)
IMPACT = MetricFamily(
    name="diag_finding_impact_seconds",
    help="Seconds of a request's mean time that the finding explains; estimated.",
    labels=_FINDING,
)
SHARE = MetricFamily(
    name="diag_finding_share_of_latency_ratio",
    help="Share of a request's mean time that the finding explains; estimated.",
    labels=_FINDING,
)
UNKNOWN = MetricFamily(
    name="diag_check_unknown",
    help="Subjects that a check could not judge, by what was missing.",
    labels=("deployment", "check", "reason"),
)
READINGS = MetricFamily(
    name="diag_signal_readings",
    help="Readings behind the derived signals, by where they were read and whether they are estimated.",
    labels=("deployment", "signal", "source", "estimated"),
)
TARGET_UP = MetricFamily(
    name="diag_target_up", help="1 when the last round read the server's counters.", labels=("server", "deployment")
)
INCIDENT = MetricFamily(
    name="diag_incident_open_timestamp_seconds",
    help="When an incident that lasts was confirmed.",
    labels=_FINDING,
)


def _derived(signal: Signal, name: str) -> tuple[Signal, MetricFamily]:
    text = f"{signal.doc} Over the deployment's window; diag_signal_readings tells sources and estimates."
    kind = {"gpu": ("server", "gpu"), "ensemble": ("server", "ensemble")}
    labels = kind.get(signal.scope.value, ("server", "model", "version"))
    return signal, MetricFamily(name=name, help=text, labels=("deployment", *labels))


DERIVED: Mapping[str, tuple[Signal, MetricFamily]] = {
    signal.name: (signal, family)
    for signal, family in (
        _derived(INSTANCES, "diag_model_instances"),
        _derived(INSTANCE_BUSY_SHARE, "diag_model_instance_busy_ratio"),
        _derived(EXECUTION_SECONDS, "diag_model_execution_seconds_mean"),
        _derived(BATCH_SIZE, "diag_model_batch_size_mean"),
        _derived(QUEUE_SECONDS, "diag_model_queue_seconds_mean"),
        _derived(COMPUTE_SECONDS, "diag_model_compute_seconds_mean"),
        _derived(REQUEST_SECONDS, "diag_model_request_seconds_mean"),
        _derived(REQUEST_RATE, "diag_model_completions_per_second"),
        _derived(ARRIVAL_RATE, "diag_model_arrivals_per_second"),
        _derived(FAILED_SHARE, "diag_model_failed_ratio"),
        _derived(DEVICE_HEADROOM, "diag_model_device_headroom_ratio"),
        _derived(ENGINE_WAIT_SECONDS, "diag_model_engine_wait_seconds_mean"),
        _derived(ENGINE_SLOT_FILL, "diag_model_engine_slot_fill_ratio"),
        _derived(ENGINE_KV_USED, "diag_model_engine_kv_used_ratio"),
        _derived(OVERHEAD_SECONDS, "diag_ensemble_overhead_seconds_mean"),
        _derived(GPU_SM_ACTIVE, "diag_gpu_sm_active_ratio"),
        _derived(GPU_TIME_USED, "diag_gpu_time_used_ratio"),
        _derived(GPU_MEMORY_USED, "diag_gpu_memory_used_ratio"),
    )
}


def rows_of(deployment: str, explanation: Explanation) -> list[Row]:
    """Return everything that one verdict says, a row per series. Readings that are missing are left out."""
    readings: Counter[tuple[str, str, bool]] = Counter()
    rows = [*_verdict(deployment, explanation.verdict), *_findings(deployment, explanation.findings)]
    rows += _unknown(deployment, explanation)
    rows += _signals(deployment, explanation.evidence, readings)
    rows += rows_to_rebuild(explanation.evidence)
    for (signal, source, estimated), count in sorted(readings.items()):
        rows.append((READINGS, (deployment, signal, source, str(estimated).lower()), float(count)))
    return rows


def rows_of_incidents(incidents: Iterable[Incident]) -> Iterator[Row]:
    """Yield a row per incident that lasts."""
    for one in incidents:
        yield INCIDENT, (one.deployment, one.check, *_parts(one.subject)), one.opened


def families(rows: Iterable[Row]) -> Iterator[Metric]:
    """Yield the metrics that these rows are, each once. Of rows with the same labels the last counts."""
    found: dict[MetricFamily, dict[tuple[str, ...], float]] = {}
    for family, labels, value in rows:
        found.setdefault(family, {})[labels] = value
    for family, values in found.items():
        kind = CounterMetricFamily if family.counter else GaugeMetricFamily
        metric = kind(family.name, family.help, labels=family.labels)
        for labels, value in values.items():
            metric.add_metric(labels, value)
        yield metric


def _verdict(deployment: str, said: Verdict) -> Iterator[Row]:
    for verdict in Verdict:
        yield VERDICT, (deployment, verdict.value), float(verdict is said)


def _findings(deployment: str, found: Sequence[Finding]) -> Iterator[Row]:
    for finding in found:
        labels = (deployment, finding.check, *_parts(finding.subject))
        yield FOUND, labels, float(finding.severity.loud or finding.check in _informing())
        yield IMPACT, labels, finding.impact.seconds_per_request
        yield SHARE, labels, finding.impact.share_of_latency


@cache
def _informing() -> frozenset[str]:
    """Return the checks whose alerts are for information, so that quiet findings may raise them too."""
    return frozenset(check.id for check in catalogue().values() if severity(check) is Severity.INFO)


def _unknown(deployment: str, explanation: Explanation) -> Iterator[Row]:
    counts = Counter((result.check.id, unknown.reason.value) for result, unknown in explanation.unknown)
    for (check, reason), count in sorted(counts.items()):
        yield UNKNOWN, (deployment, check, reason), float(count)


def _signals(deployment: str, evidence: Evidence, readings: Counter[tuple[str, str, bool]]) -> Iterator[Row]:
    subjects = {scope: evidence.subjects(scope)[:MOST_SUBJECTS] for scope in {s.scope for s, _ in DERIVED.values()}}
    for signal, family in DERIVED.values():
        for on in subjects[signal.scope]:
            reading = evidence.read(signal, on)
            if reading.value is not None:
                readings[signal.name, reading.source, reading.estimated] += 1
                yield family, (deployment, *_picked(on, family.labels[1:])), reading.value


def _parts(subject: Subject) -> tuple[str, ...]:
    return _picked(subject, _SUBJECT)


def _picked(subject: Subject, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(subject, name) or "" for name in names)


def rows_of_targets(targets: Iterable[tuple[str, str, bool]]) -> Iterator[Row]:
    """Yield a row per (server, deployment, whether its counters were read)."""
    for server, deployment, up in targets:
        yield TARGET_UP, (server, deployment), float(up)


def server_of(row: Row) -> str | None:
    """Return the server that a row is about; None for one that is about the whole deployment."""
    family, labels, _ = row
    return labels[family.labels.index("server")] if "server" in family.labels else None


def joined(*parts: Iterable[Row]) -> Iterator[Metric]:
    """Yield the metrics of several parts, each once."""
    return families(chain.from_iterable(parts))
