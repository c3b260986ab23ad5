"""What the chart makes, and the plain manifests, against the schemas, against each other, and against the service."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.__main__ import ELSEWHERE, PLAIN, VARIANTS, files
from diagnostics.errors import UsageError
from diagnostics.service.plan import owner
from diagnostics.service.running import check
from diagnostics.settings.load import load
from exporters.sources.address import parse_address
from tests.deploy.rendering import Manifest, chart, container, environment, of, plain, selects, workload
from tests.deploy.schemas import ROOT, faults

EVERY = pytest.mark.parametrize("variant", VARIANTS)
METRICS = 8002


@EVERY
def test_kubernetes_and_the_operator_know_every_field(variant: str) -> None:
    assert [fault for one in chart(variant) for fault in faults(one)] == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Deployment", {"replicaz": 1}),
        ("Deployment", {"replicas": "one"}),
        ("NetworkPolicy", {"egres": []}),
        ("Service", {"clusterIP": 1}),
        ("ServiceMonitor", {"endpoint": []}),
        ("ServiceMonitor", {"endpoints": [{"port": "http", "honourLabels": True}]}),
        ("PrometheusRule", {"groups": [{"name": "a", "rules": [{"alert": "A"}]}]}),
    ],
)
def test_the_schemas_refuse_what_is_mistyped(kind: str, change: dict[str, Any]) -> None:
    good = of(chart("single"), kind)
    assert faults({**good, "spec": {**good["spec"], **change}})


def test_the_plain_manifests_are_what_the_chart_renders() -> None:
    assert [str(path) for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text] == []
    assert set(PLAIN.glob("*/*")) == set(files())


@EVERY
def test_everything_is_in_the_kustomization(variant: str) -> None:
    listed = yaml.safe_load((PLAIN / variant / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert all((PLAIN / variant / one).exists() for one in listed)
    assert {one for one in listed if "/" not in one} == {
        path.name for path in (PLAIN / variant).glob("*.yaml") if path.name != "kustomization.yaml"
    }
    folders = [(PLAIN / variant / one).resolve() for one in listed if "/" in one]
    assert folders == [ROOT / name for name in ELSEWHERE.values()]
    assert all((folder / "kustomization.yaml").exists() for folder in folders)


@EVERY
def test_it_runs_as_nobody_and_can_write_only_its_volumes(variant: str) -> None:
    pod, own = workload(chart(variant))["spec"]["template"]["spec"], container(chart(variant))["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {one["mountPath"] for one in container(chart(variant))["volumeMounts"] if not one.get("readOnly")}
    assert written == {"/var/lib/diag", "/tmp"}


@EVERY
def test_no_token_of_the_cluster_is_mounted(variant: str) -> None:
    assert workload(chart(variant))["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert of(chart(variant), "ServiceAccount")["automountServiceAccountToken"] is False
    assert not [one for one in chart(variant) if one["kind"] == "Secret"]


@EVERY
def test_every_volume_is_there_and_mounted(variant: str) -> None:
    spec = workload(chart(variant))["spec"]
    claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", ())}
    volumes = {one["name"] for one in spec["template"]["spec"]["volumes"]} | claims
    assert {one["name"] for one in container(chart(variant))["volumeMounts"]} == volumes
    mounts = [one["mountPath"] for one in container(chart(variant))["volumeMounts"]]
    for name, value in environment(chart(variant)).items():
        assert not name.endswith(("FILE", "DIRECTORY")) or any(Path(value).is_relative_to(one) for one in mounts), name


@EVERY
def test_selectors_take_the_pods_and_the_service(variant: str) -> None:
    manifests = chart(variant)
    labels = workload(manifests)["spec"]["template"]["metadata"]["labels"]
    service, monitor = of(manifests, "Service"), of(manifests, "ServiceMonitor")
    assert selects(workload(manifests)["spec"]["selector"]["matchLabels"], labels)
    assert selects(service["spec"]["selector"], labels)
    assert selects(of(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], labels)
    assert selects(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]


@EVERY
def test_ports_are_called_alike_from_the_scrape_to_the_container(variant: str) -> None:
    manifests = chart(variant)
    (scraped,) = of(manifests, "ServiceMonitor")["spec"]["endpoints"]
    (port,) = of(manifests, "Service")["spec"]["ports"]
    (opened,) = container(manifests)["ports"]
    (door,) = of(manifests, "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    assert scraped["port"] == port["name"]
    assert port["targetPort"] == opened["name"]
    assert environment(manifests)["DIAG_WEB__LISTEN_ADDRESS"] == f":{opened['containerPort']}" == f":{door['port']}"
    probes = [container(manifests)[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [(one["path"], one["port"]) for one in probes] == [
        ("/healthz", opened["name"]),
        ("/healthz", opened["name"]),
        ("/readyz", opened["name"]),
    ]


@EVERY
def test_prometheus_presents_the_token_that_the_service_asks_for(variant: str) -> None:
    manifests = chart(variant)
    (endpoint,) = of(manifests, "ServiceMonitor")["spec"]["endpoints"]
    given = endpoint["authorization"]["credentials"]
    pod = workload(manifests)["spec"]["template"]["spec"]
    (volume,) = (one for one in pod["volumes"] if one.get("secret", {}).get("secretName") == given["name"])
    (mount,) = (one for one in container(manifests)["volumeMounts"] if one["name"] == volume["name"])
    assert environment(manifests)["DIAG_WEB__BEARER_TOKEN_FILE"] == f"{mount['mountPath']}/{given['key']}"


@EVERY
def test_the_service_accepts_the_settings_and_asks_for_credentials(variant: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "web.yml").write_text("")
    (tmp_path / "password").write_text("a-password")
    reported = checked(plain(variant), tmp_path)
    assert re.search(r"history\.directory = /var/lib/diag +# DIAG_HISTORY__DIRECTORY", reported)
    (tmp_path / "token").unlink()
    with pytest.raises(UsageError, match="bearer token"):
        checked(plain(variant), tmp_path)


def checked(manifests: tuple[Manifest, ...], tmp_path: Path) -> str:
    """Return what --check-config prints in the pod, whose files of secrets lie in a folder."""
    file = tmp_path / "diag.toml"
    file.write_text(of(manifests, "ConfigMap")["data"]["diag.toml"])
    here = {
        name: str(tmp_path / Path(value).name) if name.endswith("FILE") else value
        for name, value in environment(manifests).items()
    }
    if "DIAG_FLEET__WORKERS" in here:
        here["DIAG_FLEET__WORKER"] = str(int(here["DIAG_FLEET__WORKERS"]) - 1)
    return "\n".join(check(file, here, {}, ()))


def test_workers_of_a_fleet_are_reported_their_number_and_how_many_they_are() -> None:
    manifests = chart("fleet")
    spec = workload(manifests)["spec"]
    (number,) = (one for one in container(manifests)["env"] if one["name"] == "DIAG_FLEET__WORKER")
    assert number["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert environment(manifests)["DIAG_FLEET__WORKERS"] == str(spec["replicas"])
    assert {owner(f"deployment-{n}", spec["replicas"]) for n in range(100)} == set(range(spec["replicas"]))
    assert of(manifests, "Service")["spec"]["clusterIP"] == "None"
    assert spec["serviceName"] == of(manifests, "Service")["metadata"]["name"]


def test_two_pods_never_write_one_volume() -> None:
    assert workload(chart("single"))["spec"]["strategy"] == {"type": "Recreate"}
    assert workload(chart("single"))["spec"]["replicas"] == 1
    assert "volumeClaimTemplates" in workload(chart("fleet"))["spec"]


@EVERY
def test_a_triton_is_called_the_same_by_prometheus_and_by_the_service(variant: str) -> None:
    (endpoint,) = of(chart(variant), "ServiceMonitor", "diag-triton")["spec"]["endpoints"]
    (rule,) = endpoint["relabelings"]
    assert rule["targetLabel"] == "instance"
    settings = tomllib.loads(of(chart(variant), "ConfigMap")["data"]["diag.toml"])
    for server in settings["server"]:
        address = parse_address(server["url"])
        pod, service, namespace, _ = address.host.split(".")
        labels = {
            "__meta_kubernetes_pod_name": pod,
            "__meta_kubernetes_service_name": service,
            "__meta_kubernetes_namespace": namespace,
        }
        joined = rule["separator"].join(labels[name] for name in rule["sourceLabels"])
        found = re.fullmatch(rule["regex"], joined)
        assert found is not None
        assert rule["replacement"].replace("$1", found[1]) == address.netloc(METRICS)


@EVERY
def test_the_network_policy_lets_through_what_the_settings_name(variant: str) -> None:
    policy = of(chart(variant), "NetworkPolicy")["spec"]
    open_to = {
        (to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], port["port"])
        for rule in policy["egress"]
        for to in rule["to"]
        for port in rule["ports"]
    }
    assert all(to["podSelector"]["matchLabels"] for rule in policy["egress"] for to in rule["to"])
    file = of(chart(variant), "ConfigMap")["data"]["diag.toml"]
    settings = tomllib.loads(file)
    requested = [one["url"] for one in settings["server"]] + settings["alertmanager"]["urls"]
    for url in requested:
        address = parse_address(url)
        assert (address.host.split(".")[-2], address.port) in open_to, url
    database = environment(chart(variant)).get("DIAG_HISTORY__DATABASE", "")
    assert bool(database) == (("databases", 5432) in open_to)
    assert ("kube-system", 53) in open_to


def test_only_prometheus_may_come_in() -> None:
    (rule,) = of(chart("single"), "NetworkPolicy")["spec"]["ingress"]
    (source,) = rule["from"]
    assert source["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}


def test_dashboards_carry_the_label_of_grafanas_sidecar_and_come_whole() -> None:
    boards = {path.name: json.loads(path.read_text("utf-8")) for path in (ROOT / "dashboards").glob("*.json")}
    maps = [one for one in chart("single") if one["kind"] == "ConfigMap" and one["metadata"]["name"] != "diag"]
    assert all(one["metadata"]["labels"]["grafana_dashboard"] == "1" for one in maps)
    assert {key: json.loads(text) for one in maps for key, text in one["data"].items()} == boards


def test_the_kustomization_of_the_dashboards_has_them_all_with_the_label() -> None:
    made = yaml.safe_load((ROOT / "dashboards/kustomization.yaml").read_text("utf-8"))
    listed = [file for one in made["configMapGenerator"] for file in one["files"]]
    assert sorted(listed) == sorted(path.name for path in (ROOT / "dashboards").glob("*.json"))
    assert made["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}


def test_the_rules_come_whole_with_their_templates() -> None:
    shipped = yaml.safe_load((ROOT / "rules/prometheusrule.yaml").read_text("utf-8"))
    assert faults(shipped) == []
    assert "{{ $labels." in json.dumps(shipped)
    made = of(chart("single"), "PrometheusRule")
    assert made["spec"] == shipped["spec"]
    assert selects(shipped["metadata"]["labels"], made["metadata"]["labels"])


def test_no_variable_of_the_manifests_is_unknown_to_the_settings() -> None:
    for variant in VARIANTS:
        assert load(None, environment(chart(variant)), {}).settings.web.listen_address == ":9177"
