"""What a metric is: its name, help and labels; and a row, which is one series with its value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.diagnosis.objective import latency_of
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.gen.finding_alerts import FINDING, FINDING_LABELS, SHARE_OF_LATENCY, severity
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.engine import ENGINE_KV_USED, ENGINE_SLOT_FILL, ENGINE_WAIT_SECONDS
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_SHARE
from diagnostics.signals.gaps import OVERHEAD_SECONDS
from diagnostics.signals.gpu import GPU_MEMORY_USED, GPU_SM_ACTIVE, GPU_TIME_USED
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Signal, Subject
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_SIZE,
    COMPUTE_SECONDS,
    QUEUE_SECONDS,
    REQUEST_RATE,
    REQUEST_SECONDS,
)
from diagnostics.slo.bins import BudgetCause, Tally
from diagnostics.slo.report import SloReport
from diagnostics.window.view import STATISTICS
from diagnostics.window.window import ServerWindow
from diagnostics.wire import exported
from diagnostics.wire.exported import config_labels, group_labels, parameter_labels, step_labels

# Beyond, a server's models are too many for a page: each would be a dozen series.
MOST_SUBJECTS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One metric: its text of help, its labels, and whether it is a counter (`…_total`) or a gauge."""

    name: str
    help: str
    labels: tuple[str, ...]
    counter: bool = False


Row = tuple[MetricFamily, tuple[str, ...], float]


# A model has as many batch sizes as were executed; the largest that Triton's users set are some hundreds.
MOST_BATCH_SIZES = 128

STATISTICS_READ = MetricFamily(
    name=exported.STATISTICS_READ,
    help="When the counters of a server that are shown here were read; Unix seconds.",
    labels=("server",),
)
BATCH_EXECUTIONS = MetricFamily(
    name=exported.BATCH_EXECUTIONS,
    help="Executions of a model version by batch size, as its server counts them.",
    labels=exported.BATCH_LABELS,
    counter=True,
)
BATCH_SECONDS = MetricFamily(
    name=exported.BATCH_SECONDS,
    help="Seconds that executions of a batch size occupied an instance: input, infer and output.",
    labels=exported.BATCH_LABELS,
    counter=True,
)
CONFIG_INFO = MetricFamily(
    name=exported.CONFIG_INFO,
    help="1; a model's configuration, as completed by its server.",
    labels=exported.CONFIG_LABELS,
)
GROUP_INSTANCES = MetricFamily(
    name=exported.GROUP_INSTANCES,
    help="Instances that a group has on each of its GPUs, or in all where it lists none.",
    labels=exported.GROUP_LABELS,
)
PARAMETER_INFO = MetricFamily(
    name=exported.PARAMETER_INFO, help="1; a setting of an engine's backend.", labels=exported.PARAMETER_LABELS
)
STEP_INFO = MetricFamily(
    name=exported.STEP_INFO,
    help="1; a step of an ensemble, with the ensemble's tensors that it takes and makes.",
    labels=exported.STEP_LABELS,
)
HOST_READ = MetricFamily(
    name=exported.HOST_READ,
    help="When the machine of a server was read; Unix seconds.",
    labels=exported.HOST_LABELS,
)
_HOST = {
    one: MetricFamily(name=one.name, help=one.help, labels=labels, counter=one.counter)
    for table, labels in (
        (exported.HOST, exported.HOST_LABELS),
        (exported.PROCESS, exported.PROCESS_LABELS),
    )
    for one in table.values()
}


def rows_to_rebuild(evidence: Evidence) -> Iterator[Row]:
    """Yield what each server's newest statistics and configurations say; nothing of what was not read."""
    for server in evidence.window.servers.values() if isinstance(evidence, WindowEvidence) else ():
        yield from _statistics(server)
        yield from _configurations(server)
        yield from _machine(server)


def _statistics(server: ServerWindow) -> Iterator[Row]:
    reads = server.reads[STATISTICS]
    if not reads:
        return
    newest, steady = reads[-1]
    yield STATISTICS_READ, (server.name,), newest
    for (model, version), table in list(server.tables[STATISTICS].items())[:MOST_SUBJECTS]:
        if table.last is None or table.last.mono != steady:
            continue  # a version that is gone
        for size, batches in sorted(table.last.batches.items())[:MOST_BATCH_SIZES]:
            labels = (server.name, model, version, str(size))
            yield BATCH_EXECUTIONS, labels, batches.executions
            yield BATCH_SECONDS, labels, batches.seconds


def _configurations(server: ServerWindow) -> Iterator[Row]:
    for config in list(server.configs.values())[:MOST_SUBJECTS]:
        yield CONFIG_INFO, config_labels(server.name, config), 1.0
        for labels, count in group_labels(server.name, config):
            yield GROUP_INSTANCES, labels, float(count)
        for labels in parameter_labels(server.name, config):
            yield PARAMETER_INFO, labels, 1.0
        for labels in step_labels(server.name, config):
            yield STEP_INFO, labels, 1.0


def _machine(server: ServerWindow) -> Iterator[Row]:
    if not server.hosts or server.hosts[-1].at is None:
        return
    newest = server.hosts[-1]
    yield HOST_READ, (server.name,), newest.at or 0.0
    for family, value in exported.host_values(newest):
        yield _HOST[family], (server.name,), value
    for family, labels, value in exported.process_values(server.name, newest):
        yield _HOST[family], labels, value


EVENTS, BAD = "diag_slo_events", "diag_slo_bad_events"
BAD_LOW, BAD_HIGH = "diag_slo_bad_events_low", "diag_slo_bad_events_high"
ATTRIBUTED = "diag_slo_bad_events_attributed"
OBJECTIVE, BURN, LEFT = "diag_slo_objective_ratio", "diag_slo_burn_rate", "diag_slo_budget_remaining_ratio"
LABELS = ("slo", "deployment", "server", "model")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))
EventKey = tuple[str, str, str, str]
"""Objective, deployment, server, model."""


def event_metrics(
    events: Mapping[EventKey, Tally], causes: Mapping[tuple[str, BudgetCause], float]
) -> Iterator[Metric]:
    """Yield the counters of events, and of what took the bad ones."""
    texts = {
        EVENTS: "Requests that an objective is about.",
        BAD: "Requests that broke the promise: the best estimate, or as many as certainly did.",
        BAD_LOW: "Requests that certainly broke the promise.",
        BAD_HIGH: "Requests that possibly broke the promise.",
    }
    families = {name: CounterMetricFamily(name, text, labels=LABELS) for name, text in texts.items()}
    for key, tally in events.items():
        values = {EVENTS: tally.total, BAD: tally.bad, BAD_LOW: tally.low, BAD_HIGH: tally.high}
        for name, value in values.items():
            families[name].add_metric(key, value)
    yield from families.values()
    text = "Requests that broke the promise, by the root cause that took them; the rest is unexplained."
    attributed = CounterMetricFamily(ATTRIBUTED, text, labels=("slo", "check", "server", "model"))
    for (slo, cause), bad in causes.items():
        attributed.add_metric((slo, cause.check, cause.server, cause.model), bad)
    yield attributed


def report_metrics(reports: Sequence[SloReport]) -> Iterator[Metric]:
    """Yield the gauges of how objectives stand."""
    objective = GaugeMetricFamily(OBJECTIVE, "Share of requests that must be good.", labels=("slo",))
    burn = GaugeMetricFamily(BURN, "How many times faster than allowed the budget burns.", labels=("slo", "window"))
    left = GaugeMetricFamily(
        LEFT,
        "Share of the period's budget that is left; below 0: overspent. Extrapolated until the period was measured.",
        labels=("slo",),
    )
    for one in reports:
        objective.add_metric((one.slo.name,), one.slo.objective)
        for window in one.burns:
            if window.rate is not None:
                burn.add_metric((one.slo.name, _duration(window.seconds)), window.rate)
        if one.left is not None:
            left.add_metric((one.slo.name,), one.left)
    yield from (objective, burn, left)


def _duration(seconds: float) -> str:
    """Return a length of time as Prometheus writes it, in the largest unit of which it is whole: `30d`, `6h`, `90s`."""
    size, unit = next((one for one in _UNITS if seconds % one[0] == 0), (1.0, "s"))
    return f"{seconds / size:g}{unit}"


_STATISTICS: Mapping[str, float | None] = {"mean": None, "p50": 0.5, "p95": 0.95}
_SUBJECT = ("server", "model", "version", "gpu", "ensemble")


VERDICT = MetricFamily(
    name="diag_verdict",
    help="1 for what is said of the deployment now, 0 for all else; insufficient-data where no server answers.",
    labels=("deployment", "verdict"),
)
FOUND = MetricFamily(
    name=FINDING,
    help="1 for each finding of the newest verdict, 0 for one that is too small to act on.",
    labels=FINDING_LABELS,
)
IMPACT = MetricFamily(
    name="diag_finding_impact_seconds",
    help="Seconds of a request's mean time that the finding explains; estimated.",
    labels=FINDING_LABELS,
)
SHARE = MetricFamily(
    name=SHARE_OF_LATENCY,
    help="Share of a request's mean time that the finding explains; estimated.",
    labels=FINDING_LABELS,
)
SEVERITY = MetricFamily(
    name="diag_finding_severity",
    help="Severity of the finding, and of its incident: 0 for info, 1 for warning, 2 for critical.",
    labels=FINDING_LABELS,
)
LATENCY = MetricFamily(
    name="diag_request_seconds",
    help="Seconds that requests of an entry point take in the server; statistic is mean, p50 or p95. Quantiles are of "
    "traced requests, else of the server's summaries. One that nothing shows is left out.",
    labels=("deployment", "server", "ensemble", "model", "statistic"),
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
TARGET_READ = MetricFamily(
    name="diag_target_last_success_timestamp_seconds",
    help="When the server's counters were last read; Unix seconds.",
    labels=("server", "deployment"),
)
INCIDENT = MetricFamily(
    name="diag_incident_open_timestamp_seconds",
    help="When an incident that lasts was confirmed.",
    labels=FINDING_LABELS,
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
    rows += _latencies(deployment, explanation)
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


def _verdict(deployment: str, stated: Verdict) -> Iterator[Row]:
    for verdict in Verdict:
        yield VERDICT, (deployment, verdict.value), float(verdict is stated)


def _findings(deployment: str, found: Sequence[Finding]) -> Iterator[Row]:
    for finding in found:
        labels = (deployment, finding.check, *_parts(finding.subject))
        yield FOUND, labels, float(finding.severity.actionable or finding.check in _informing())
        yield SEVERITY, labels, float(finding.severity.rank)
        yield IMPACT, labels, finding.impact.seconds_per_request
        yield SHARE, labels, finding.impact.share_of_latency


def _latencies(deployment: str, explanation: Explanation) -> Iterator[Row]:
    for item in explanation.anatomy:
        on = (deployment, item.server, item.ensemble or "", "" if item.ensemble else item.stages[0].model)
        for name, quantile in _STATISTICS.items():
            value = latency_of(explanation.evidence, item, quantile).value
            if value is not None:
                yield LATENCY, (*on, name), value


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


def rows_of_targets(targets: Iterable[tuple[str, str, bool, float | None]]) -> Iterator[Row]:
    """Yield rows per (server, deployment, whether its counters were read, when they last were: Unix seconds)."""
    for server, deployment, up, last in targets:
        yield TARGET_UP, (server, deployment), float(up)
        if last is not None:
            yield TARGET_READ, (server, deployment), last


def rows_of_silence(deployment: str, last: Explanation) -> Iterator[Row]:
    """Yield what is known of a deployment none of whose servers answers: that, and the outage if one was found.

    Args:
        deployment: its name.
        last: the verdict on what was read before.

    """
    outages = [one for one in last.findings if one.check == OUTAGE]
    actionable = any(one.severity.actionable for one in outages)
    yield from _verdict(deployment, Verdict.DEGRADED if actionable else Verdict.INSUFFICIENT_DATA)
    yield from _findings(deployment, outages)


def server_of(row: Row) -> str | None:
    """Return the server that a row is about; None for one that is about the whole deployment."""
    family, labels, _ = row
    return labels[family.labels.index("server")] if "server" in family.labels else None


def joined(*parts: Iterable[Row]) -> Iterator[Metric]:
    """Yield the metrics of several parts, each once."""
    return families(chain.from_iterable(parts))
