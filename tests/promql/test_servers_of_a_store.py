"""Which stored series are one server's, however often and under whatever labels they are stored."""

from __future__ import annotations

import pytest

from diagnostics.window.from_samples import ServerSeries, servers_of
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.prometheus_answer import SampledSeries
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton
from tests.promql.fake_prometheus import FakePrometheus

TRITON = SyntheticTriton(models=(Stage("a", rate=40, execution=0.01), Stage("b", rate=3, execution=0.1)), interval=15.0)
OTHER = SyntheticTriton(models=(Stage("a", rate=44, execution=0.01), Stage("b", rate=3, execution=0.1)), interval=15.0)


def scraped(fake: FakePrometheus, triton: SyntheticTriton, late: float = 0.0, **target: str) -> None:
    reader = ExpositionReader()
    counted = SyntheticTriton(models=triton.models, times=[late + 15.0 * number for number in range(20)])
    for one in counted.scrapes():
        if one.kind is BodyKind.METRICS and one.body is not None:
            fake.scrape(one.at, one.body, reader, **{"job": "triton", "instance": "triton:8002", **target})


def servers(fake: FakePrometheus) -> list[ServerSeries]:
    return servers_of(
        SampledSeries(labels=dict(labels), times=[at for at, _ in samples], values=[value for _, value in samples])
        for labels, samples in fake.series.items()
    )


def test_labels_of_a_scrape_are_not_on_the_page() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, namespace="chat", pod="triton-0")
    (server,) = servers(fake)
    assert server.server == "triton:8002"
    assert {name for labels, _ in server.series for name in labels} == {"__name__", "model", "version", "reason"}


@pytest.mark.parametrize("label", ["replica", "prometheus_replica", "job", "prometheus"])
def test_a_server_that_is_stored_twice_is_one(label: str) -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, **{label: "a"})
    scraped(fake, TRITON, late=6.5, **{label: "b"})
    (server,) = servers(fake)
    assert (server.server, server.copies) == ("triton:8002", 1)
    assert len({tuple(one.times) for _, one in server.series}) == 1


def test_the_copy_with_more_samples_is_read() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, replica="a")
    scraped(fake, TRITON, late=6.5, replica="b")
    for labels, samples in fake.series.items():
        if dict(labels)["replica"] == "a":
            del samples[3:9]
    (server,) = servers(fake)
    assert len(server.series[0][1].times) == 20


@pytest.mark.parametrize("label", ["cluster", "namespace", "pod", "job"])
def test_servers_that_share_an_instance_are_distinguished(label: str) -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, **{label: "eu"})
    scraped(fake, OTHER, late=6.5, **{label: "us"})
    assert [(server.server, server.copies) for server in servers(fake)] == [
        (f"triton:8002 {label}=eu", 0),
        (f"triton:8002 {label}=us", 0),
    ]


def test_a_restart_of_a_server_that_is_stored_twice_leaves_it_one() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, replica="a")
    scraped(fake, TRITON, late=6.5, replica="b")
    for samples in fake.series.values():
        samples[10:] = [(at, value * 0.1) for at, value in samples[10:]]
    assert len(servers(fake)) == 1


def test_own_labels_win_over_a_targets_of_the_same_name() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON)
    moved = [({("version" if k == "version" else k): v for k, v in labels}, one) for labels, one in fake.series.items()]
    fake.series = {}
    for labels, samples in moved:
        if "version" in labels:
            labels |= {"exported_version": labels["version"], "version": "v2.59"}
        fake.add(labels, samples)
    (server,) = servers(fake)
    assert {labels["version"] for labels, _ in server.series if "model" in labels} == {"1"}


def test_a_renamed_server_is_another() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON, instance="old:8002")
    scraped(fake, TRITON, late=400.0, instance="new:8002")
    assert [server.server for server in servers(fake)] == ["new:8002", "old:8002"]


def test_tenants_labels_of_a_model_stay() -> None:
    fake = FakePrometheus()
    scraped(fake, TRITON)
    for labels in list(fake.series):
        if dict(labels).get("model") == "a":
            fake.series[tuple(sorted([*labels, ("tenant", "chat")]))] = fake.series.pop(labels)
    (server,) = servers(fake)
    assert {labels.get("tenant") for labels, _ in server.series} == {"chat", None}
