"""What a window can be rebuilt from that Triton's page lacks: executions by batch size, configurations, its machine.

The counters are the server's own, with the time at which they were read: whoever takes differences of them divides by
differences of that, not of the time at which they were scraped from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.window.view import STATISTICS
from diagnostics.window.window import ServerWindow
from diagnostics.wire import exported, exported_host
from diagnostics.wire.exported import config_labels, group_labels, parameter_labels, step_labels
from exporters.sinks.family import MOST_SUBJECTS, MetricFamily, Row

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
    name=exported_host.HOST_READ,
    help="When the machine of a server was read; Unix seconds.",
    labels=exported_host.HOST_LABELS,
)
_HOST = {
    one: MetricFamily(name=one.name, help=one.help, labels=labels, counter=one.counter)
    for table, labels in (
        (exported_host.HOST, exported_host.HOST_LABELS),
        (exported_host.PROCESS, exported_host.PROCESS_LABELS),
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
    for family, value in exported_host.host_values(newest):
        yield _HOST[family], (server.name,), value
    for family, labels, value in exported_host.process_values(server.name, newest):
        yield _HOST[family], labels, value
