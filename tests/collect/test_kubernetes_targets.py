"""Pods of a cluster, as an API server lists and watches them over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from diagnostics.errors import CollectError, UsageError
from exporters.sources.triton import discover_all
from tests.collect.fake_triton import FakeServer

pytest.importorskip("kubernetes", reason="the client of Kubernetes is not installed")
from exporters.sources import kubernetes_targets
from exporters.sources.kubernetes_targets import KubernetesTargets, PodQuery, service_urls

Json = dict[str, Any]
PODS, SERVICES = "/api/v1/namespaces/ml/pods", "/api/v1/namespaces/ml/services"


def pod(name: str, ip: str = "10.0.0.1", *, ready: bool = True, version: int = 1, **more: Any) -> Json:
    """Return a pod as an API server writes it, without what is not read."""
    ports = [{"name": "http", "containerPort": 8000, "protocol": "TCP"}, {"name": "metrics", "containerPort": 8002}]
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"app.kubernetes.io/name": "triton", "pod-template-hash": "7c9d"},
            **more,
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {"name": "sidecar", "image": "proxy:1"},
                {"name": "triton", "image": "tritonserver:25.01", "ports": ports},
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True" if ready else "False"},
            ],
        },
    }


def event(kind: str, about: Json) -> Json:
    return {"type": kind, "object": about}


def bookmark(version: int) -> Json:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


GONE = event(
    "ERROR",
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "too old resource version: 7 (42)",
        "reason": "Expired",
        "code": 410,
    },
)


class ApiServer(FakeServer):
    """Answers lists with `pods` in pages of two, and each watch with the next of `watches`."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[Json] = []
        self.services: list[Json] = []
        self.watches: list[list[Json] | int] = []
        self.asked: list[Mapping[str, str]] = []
        self.version = 7

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                asked = dict(parse_qsl(url.query))
                server.asked.append({"path": url.path, "token": self.headers.get("Authorization", ""), **asked})
                answer_watch(self, server) if asked.get("watch") else send(self, *server.listed(url.path, asked))

            def log_message(self, *_: object) -> None: ...

        return Handler

    def listed(self, path: str, asked: Mapping[str, str]) -> tuple[Json, int]:
        if path == SERVICES:
            return {"items": self.services, "metadata": {"resourceVersion": "1"}}, 200
        if path != PODS:
            return {"kind": "Status", "code": 403}, 403
        start = int(asked.get("continue", "0"))
        more = str(start + 2) if start + 2 < len(self.pods) else ""
        about = {"resourceVersion": str(self.version), "continue": more}
        return {"kind": "PodList", "items": self.pods[start : start + 2], "metadata": about}, 200


def send(handler: BaseHTTPRequestHandler, value: object, code: int) -> None:
    body = json.dumps(value).encode()
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def answer_watch(handler: BaseHTTPRequestHandler, server: ApiServer) -> None:
    events = server.watches.pop(0) if server.watches else 500
    if isinstance(events, int):
        send(handler, {"kind": "Status", "code": events}, events)
        return
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for one in events:
        line = json.dumps(one).encode() + b"\n"
        half = len(line) // 2  # events are cut anywhere on their way
        for part in (line[:half], line[half:]):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
    handler.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def cluster() -> Iterator[ApiServer]:
    with (made := ApiServer()).running():
        yield made


def kubeconfig(cluster: ApiServer, folder: Path) -> Path:
    file = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {"token": "tok-1234567"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    file.write_text(json.dumps(config))
    return file


def source(cluster: ApiServer, folder: Path, **query: str) -> KubernetesTargets:
    asked = PodQuery(namespace="ml", **query)
    return KubernetesTargets(asked, kubeconfig=kubeconfig(cluster, folder), context="", timeout=2.0)


def places(found: KubernetesTargets) -> list[str]:
    return [one.place for one in found.find().targets]


def test_ready_pods_are_listed_page_by_page(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.pods = [
        pod("triton-0"),
        pod("triton-1", "10.0.0.2", ready=False),
        pod("triton-2", "10.0.0.3", deletionTimestamp="2026-01-31T03:12:00Z"),
        pod("triton-3", ""),
        pod("triton-4", "2001:db8::1"),
    ]
    found = source(cluster, tmp_path, selector="app=triton", port="metrics").find()
    assert [one.url for one in found.targets] == ["http://10.0.0.1:8002", "http://[2001:db8::1]:8002"]
    assert found.targets[0].labels == {
        "namespace": "ml",
        "pod": "triton-0",
        "image": "tritonserver:25.01",
        "revision": "7c9d",
        "__meta_kubernetes_pod_label_pod_template_hash": "7c9d",
        "__meta_kubernetes_pod_node_name": "node-1",
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": "triton",
    }
    assert {one["token"] for one in cluster.asked} == {"Bearer tok-1234567"}
    assert {one["labelSelector"] for one in cluster.asked} == {"app=triton"}


def test_pods_come_and_go_as_they_are_watched(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.pods = [pod("triton-0")]
    cluster.watches = [
        [
            event("ADDED", pod("triton-1", "10.0.0.2", ready=False, version=8)),
            event("MODIFIED", pod("triton-1", "10.0.0.2", version=9)),
            event("DELETED", pod("triton-0", version=10)),
            bookmark(12),
        ],
        [event("MODIFIED", pod("triton-1", "10.0.0.7", version=13))],
    ]
    watched = source(cluster, tmp_path)
    seen = [places(watched) for _ in range(5)]
    both = ["10.0.0.1:8000", "10.0.0.2:8000"]
    assert seen == [["10.0.0.1:8000"], ["10.0.0.1:8000"], both, ["10.0.0.2:8000"], ["10.0.0.2:8000"]]
    assert watched.refresh == 0.0
    places(watched)
    assert watched.refresh > 0, "a server that ends watches at once is not asked without pause"
    assert [places(watched) for _ in range(2)] == [["10.0.0.2:8000"], ["10.0.0.7:8000"]]
    versions = [one["resourceVersion"] for one in cluster.asked if one.get("watch")]
    assert versions == ["7", "12"], "a watch goes on where the last one ended"
    assert len([one for one in cluster.asked if not one.get("watch")]) == 1, "pods are listed once"
    assert all(one.get("allowWatchBookmarks") for one in cluster.asked if one.get("watch"))


@pytest.mark.parametrize("gone", [[GONE], 410])
def test_pods_are_listed_anew_when_the_version_is_too_old(
    cluster: ApiServer, tmp_path: Path, gone: list[Json] | int
) -> None:
    cluster.pods = [pod("triton-0")]
    cluster.watches = [gone, [bookmark(50)]]
    watched = source(cluster, tmp_path)
    assert places(watched) == ["10.0.0.1:8000"]
    cluster.pods, cluster.version = [pod("triton-9", "10.0.0.9")], 42
    assert places(watched) == ["10.0.0.1:8000"], "what was known stays until the list"
    assert places(watched) == ["10.0.0.9:8000"]
    watched.find()
    assert [one["resourceVersion"] for one in cluster.asked if one.get("watch")] == ["7", "42"]


def test_an_api_server_that_fails_is_reported_and_listed_anew(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.pods, cluster.watches = [pod("triton-0")], [500]
    watched = source(cluster, tmp_path)
    watched.find()
    with pytest.raises(CollectError, match="HTTP 500"):
        watched.find()
    cluster.pods = []
    assert places(watched) == []


def test_what_may_not_be_read_is_reported_with_what_to_do(cluster: ApiServer, tmp_path: Path) -> None:
    query = PodQuery(namespace="other")
    denied = KubernetesTargets(query, kubeconfig=kubeconfig(cluster, tmp_path), context="", timeout=2.0)
    with pytest.raises(CollectError, match="HTTP 403; let its account list and watch pods"):
        denied.find()


def test_the_pods_of_a_service_are_those_that_it_selects(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.services = [{"metadata": {"name": "triton"}, "spec": {"selector": {"app": "triton", "tier": "a"}}}]
    cluster.pods = [pod("triton-0")]
    assert places(source(cluster, tmp_path, service="triton")) == ["10.0.0.1:8000"]
    assert [one.get("labelSelector") or one.get("fieldSelector") for one in cluster.asked] == [
        "metadata.name=triton",
        "app=triton,tier=a",
    ]


@pytest.mark.parametrize(("services", "reason"), [([], "no service of this name"), ([{"spec": {}}], "selects no pods")])
def test_a_service_without_pods_is_named(cluster: ApiServer, tmp_path: Path, services: list[Json], reason: str) -> None:
    cluster.services = services
    found = source(cluster, tmp_path, service="triton")
    listed = found.find()
    assert (listed.targets, list(listed.refused)) == ([], ["ml/triton"])
    assert reason in listed.refused["ml/triton"]
    assert found.refresh > 0


def test_the_servers_of_a_service_are_named_by_one_address(
    cluster: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig(cluster, tmp_path))
    )
    cluster.services = [{"metadata": {"name": "triton"}, "spec": {"selector": {"app": "triton"}}}]
    cluster.pods = [pod("triton-0"), pod("triton-1", "10.0.0.2", ready=False)]
    assert service_urls("k8s://ml/triton") == ["http://10.0.0.1:8000"]
    assert service_urls("k8s://ml/triton:metrics") == ["http://10.0.0.1:8002"]
    cluster.pods = cluster.pods[1:]
    with pytest.raises(CollectError, match="k8s://ml/triton: none of its pods is ready"):
        service_urls("k8s://ml/triton")
    servers, failures = discover_all(["k8s://ml/triton"])
    assert (servers, [one.what for one in failures]) == ([], ["none of its pods is ready"])


@pytest.mark.parametrize("source", ["k8s://", "k8s://ml", "k8s://ml/", "k8s://ml/a/b", "k8s://ML/a", "k8s://ml/a:b:c"])
def test_an_address_of_no_service_is_refused(source: str) -> None:
    with pytest.raises(UsageError, match="names no service; give k8s://namespace/service"):
        service_urls(source)


def test_a_pod_without_the_port_is_refused_alone(cluster: ApiServer, tmp_path: Path) -> None:
    other = pod("other")
    other["spec"]["containers"] = [{"name": "other"}]
    cluster.pods = [pod("triton-0", "10.0.0.2"), other]
    found = source(cluster, tmp_path, port="http").find()
    assert [one.place for one in found.targets] == ["10.0.0.2:8000"]
    assert found.refused == {"ml/other": "has no port 'http'"}


def test_a_cluster_that_cannot_be_reached_is_reported(tmp_path: Path) -> None:
    query = PodQuery(namespace="ml")
    with pytest.raises(UsageError, match="no cluster can be reached"):
        KubernetesTargets(query, kubeconfig=tmp_path / "gone", context="", timeout=2.0)
    with ApiServer().running() as server:
        file = kubeconfig(server, tmp_path)  # type: ignore[arg-type]
    closed = KubernetesTargets(query, kubeconfig=file, context="", timeout=2.0)
    with pytest.raises(CollectError, match="the API server does not answer"):
        closed.find()


def test_a_pod_that_was_refused_and_is_gone_is_named_no_more(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.pods = [pod("b", ip="no address")]
    cluster.watches = [[event("DELETED", pod("b", ip="no address", version=8))]]
    found = source(cluster, tmp_path)
    assert list(found.find().refused) == ["ml/b"]
    assert not found.find().refused


def test_pages_without_pods_do_not_go_on_without_end(
    cluster: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_targets, "MOST_TARGETS", 4 * kubernetes_targets.PAGE)
    monkeypatch.setattr(
        cluster, "listed", lambda *_: ({"items": [], "metadata": {"resourceVersion": "7", "continue": "2"}}, 200)
    )
    assert not source(cluster, tmp_path).find().targets
    assert len(cluster.asked) == 8
