"""Servers that a Prometheus scrapes, as its API lists them."""

from __future__ import annotations

import json

import pytest

from diagnostics.errors import CollectError
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_targets import PrometheusTargets
from tests.collect.fake_triton import Answer, FakeServer, page, status

LIST = "GET /prometheus/api/v1/targets?state=active"


def scraped(url: str, job: str = "triton", **labels: str) -> dict[str, object]:
    """Return a target as Prometheus 2.53 lists it."""
    return {
        "discoveredLabels": {"__address__": url, "job": job},
        "labels": {"instance": url, "job": job, **labels},
        "scrapePool": job,
        "scrapeUrl": url,
        "globalUrl": url,
        "lastError": "",
        "lastScrape": "2026-01-31T03:12:00Z",
        "lastScrapeDuration": 0.01,
        "health": "up",
        "scrapeInterval": "15s",
        "scrapeTimeout": "10s",
    }


def listed(*targets: object) -> Answer:
    return page(json.dumps({"status": "success", "data": {"activeTargets": targets, "droppedTargets": []}}).encode())


def source(server: FakeServer) -> PrometheusTargets:
    url = f"{server.url}/prometheus"
    return PrometheusTargets(url, ["triton", "trtllm"], SourceOptions(), refresh=60)


def test_the_targets_of_the_named_jobs_are_servers() -> None:
    answer = listed(
        scraped("http://a:8002/metrics", zone="z"),
        scraped("https://b:8002/metrics?token=hunter22", "trtllm"),
        scraped("http://node:9100/metrics", "node"),
        scraped("http:///metrics"),
        "x",
    )
    with FakeServer({LIST: answer}).running() as server, pytest.raises(CollectError, match="list of objects"):
        source(server).find()
    answer = listed(
        scraped("http://a:8002/metrics", zone="z"),
        scraped("https://b:8002/metrics?token=hunter22", "trtllm"),
        scraped("http://node:9100/metrics", "node"),
        scraped("http:///metrics"),
    )
    with FakeServer({LIST: answer}).running() as server:
        found = source(server).find()
    assert [one.url for one in found.targets] == ["http://a:8002/metrics", "https://b:8002/metrics"]
    assert found.targets[0].labels == {"instance": "http://a:8002/metrics", "job": "triton", "zone": "z"}
    assert found.refused_count == 1
    assert "names no host" in next(iter(found.refused.values()))


@pytest.mark.parametrize("answer", [page(b"[]"), page(b"<html>"), page(b'{"data": []}'), status(503)])
def test_another_answer_is_reported(answer: Answer) -> None:
    with FakeServer({LIST: answer}).running() as server, pytest.raises(CollectError) as caught:
        source(server).find()
    assert f"{server.url}/prometheus" in str(caught.value)
