"""What a store holds beside Triton's pages: dcgm-exporter's, and what several services exported."""

from __future__ import annotations

import pytest

from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.disk import IO_THREADS
from diagnostics.window.from_samples import SamplePages
from diagnostics.wire.exported import CONFIG_INFO, CONFIG_LABELS, config_labels
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.records import BodyKind
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus import CARD, card_records, exported_records
from exporters.sources.prometheus_api import PrometheusApi, parse_prometheus
from exporters.sources.prometheus_samples import SampleReader
from tests.builders import SERVER, START, Stage, SyntheticTriton, model_config, view_of
from tests.promql.fake_prometheus import FakePrometheus
from tests.promql.stored import stored, watched
from tests.promql.test_windows import rebuilt

TRITON = SyntheticTriton(
    models=(Stage("slow", rate=38, execution=0.0245, config=model_config("slow")),),
    interval=15.0,
    extra_metrics=lambda _: ['nv_gpu_utilization{gpu_uuid="GPU-0"} 0.9'],
)
DCGM = """\
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-0",modelName="H100"} 0.75
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-0",modelName="H100"} 1024
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-1",modelName="H100"} 0.1
"""


def reader(fake: FakePrometheus, label: str) -> SampleReader:
    return SampleReader(PrometheusApi(parse_prometheus(fake.url), SourceOptions()), label=label)


def test_cards_are_those_that_tritons_pages_name() -> None:
    fake = stored(TRITON.scrapes(10), with_service=False)
    for number in range(5):
        fake.scrape(START + 30.0 * number, DCGM.encode(), ExpositionReader(), job="dcgm", instance="dcgm:9400")
    window = rebuilt(fake, 200.0)
    assert list(window.cards) == ["GPU-0"]
    at, card = window.cards["GPU-0"][-1]
    assert (at, card.sm_active, card.memory_used_bytes) == (START + 120, 0.75, 2**30)


def test_without_cards_no_exporter_is_requested() -> None:
    fake = FakePrometheus()
    with fake.running():
        assert list(card_records(reader(fake, CARD), (), SamplePages(), (0.0, 60.0))) == []
    assert fake.queries == []


def node(number: int, waits: float) -> bytes:
    """Return a node_exporter's page of the scrape `number` of a machine where that share of a second waits for I/O."""
    return (
        f"node_pressure_io_waiting_seconds_total {15.0 * number * waits}\n"
        f"node_pressure_cpu_waiting_seconds_total {15.0 * number * 0.1}\n"
        "node_memory_MemTotal_bytes 64e9\nnode_memory_MemAvailable_bytes 32e9\n"
        + "".join(
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {15.0 * number * share}\n'
            for cpu in range(2)
            for mode, share in (("idle", 0.03), ("iowait", 0.02), ("user", 0.9), ("system", 0.05))
        )
    ).encode()


@pytest.mark.parametrize(("instance", "known"), [(f"{SERVER}:9100", True), (SERVER, True), ("another:9100", False)])
def test_a_servers_machine_is_the_one_whose_node_exporter_has_its_host(instance: str, *, known: bool) -> None:
    fake = stored(TRITON.without(BodyKind.STATISTICS).scrapes(10), with_service=False)
    for number in range(10):
        fake.scrape(START + 15.0 * number, node(number, 0.4), ExpositionReader(), job="node", instance=instance)
    window = rebuilt(fake, 200.0)
    threads = IO_THREADS.read(view_of(window, None, None))

    assert bool(window.servers[SERVER].hosts) is known
    assert threads.value == (pytest.approx(0.4) if known else None)
    assert HOST_CPU_BUSY.read(view_of(window, None, None)).value == (pytest.approx(0.95) if known else None)
    assert not known or window.servers[SERVER].hosts[-1].memory_available_bytes == 32e9


def test_processors_of_a_machine_that_booted_are_as_busy_as_since_then() -> None:
    fake = stored(TRITON.without(BodyKind.STATISTICS).scrapes(10), with_service=False)
    for number in range(10):
        up = number + 100 if number < 3 else number - 3
        fake.scrape(START + 15.0 * number, node(up, 0.4), ExpositionReader(), job="node", instance=f"{SERVER}:9100")

    assert HOST_CPU_BUSY.read(view_of(rebuilt(fake, 200.0), None, None)).value == pytest.approx(0.95)


def test_what_a_service_measured_of_a_machine_counts_before_a_node_exporter() -> None:
    fake = stored(TRITON.scrapes(10), with_service=True)
    for number in range(10):
        fake.scrape(START + 15.0 * number, node(number, 0.4), ExpositionReader(), job="node", instance=f"{SERVER}:9100")

    assert all(one.io_pressure_seconds is None for one in rebuilt(fake).servers[SERVER].hosts)


def test_of_two_services_the_one_that_still_watches_is_believed() -> None:
    fake = stored(TRITON.scrapes(20), with_service=True)
    older = SyntheticTriton(
        models=(Stage("slow", rate=38, execution=0.0245, config=model_config("slow", max_batch=64)),)
    )
    other = FakePrometheus()
    watched(other, older.scrapes(8))
    for labels, samples in other.series.items():
        fake.add({**dict(labels), "instance": "old-diag:9177"}, samples)
    configs = rebuilt(fake).servers[SERVER].configs
    assert configs["slow"].max_batch_size == 0


def test_a_configuration_that_changed_is_one_that_changed() -> None:
    before, after = (
        SyntheticTriton(
            models=(
                Stage(
                    "slow",
                    rate=38,
                    execution=0.0245,
                    config=model_config("slow", groups=[{"kind": "KIND_CPU", "count": count}]),
                ),
            )
        )
        for count in (1, 2)
    )
    fake = stored(TRITON.scrapes(20), with_service=False)
    watched(fake, before.scrapes(20))
    watched(fake, [one for one in after.scrapes(60) if one.kind is BodyKind.CONFIG or one.at > START + 97])
    configured = rebuilt(fake).servers[SERVER].configured["slow"]
    assert [(at, config.instance_groups[0].count) for at, config in configured] == [
        (START + 0.4, 1),
        (START + 100.4, 2),
    ]


def test_a_configuration_that_was_put_back_is_the_one_in_force() -> None:
    fake = stored(TRITON.scrapes(20), with_service=False)
    for size, times in ((8, [0, 15, 30, 75, 90]), (64, [45, 60])):
        values = config_labels(SERVER, ModelConfig(name="slow", max_batch_size=size))
        named = dict(zip(CONFIG_LABELS, values, strict=True)) | {"__name__": CONFIG_INFO, "job": "diag"}
        fake.add({name: text for name, text in named.items() if text}, [(START + at, 1.0) for at in times])
    assert rebuilt(fake).servers[SERVER].configs["slow"].max_batch_size == 8


def test_servers_that_nobody_requested_are_left_out() -> None:
    fake = stored(TRITON.scrapes(10), with_service=True)
    with fake.running():
        records = list(exported_records(reader(fake, "server"), ["another:8002"], (START, START + 200)))
    assert records == []


@pytest.mark.parametrize("servers", [1, 2000])
def test_a_query_stays_short_enough_for_every_store(servers: int) -> None:
    fake = stored(TRITON.scrapes(10), with_service=True)
    names = [SERVER, *(f"triton-{number}.chat.svc.cluster.local:8002" for number in range(servers))]
    with fake.running():
        records = list(exported_records(reader(fake, "server"), names, (START, START + 200)))
    assert {record.scrape.server for record in records} == {SERVER}
    assert len(fake.queries[-1]) < 16_000
