"""The chart in Helm's own hands: linted, its values checked, and every value seen in what it makes."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import Chart, HelmRenderError, HelmValuesError
from helm_python import lint as helm_lint

from deploy.__main__ import CHART, VARIANTS
from diagnostics.settings.addresses import prefix_of
from diagnostics.settings.load import load
from tests.deploy.rendering import Manifest, documents
from tests.deploy.schemas import ROOT, faults

FLEET = VARIANTS["fleet"]
NAME = "diag-triton-diagnostics"


@pytest.fixture(scope="module")
def chart() -> Iterator[Chart]:
    with Chart.load(CHART) as loaded:
        yield loaded


def made(chart: Chart, values: dict[str, Any], name: str = "diag") -> list[Manifest]:
    """Return what Helm makes, without what is told after an installation."""
    texts = chart.render(values, name=name, namespace="monitoring")
    return list(documents({name: text for name, text in texts.items() if name.endswith(".yaml")}))


def operator(word: str) -> dict[str, Any]:
    return {"prometheusOperator": word, "dashboards": {"enabled": False}}


def kinds(manifests: list[Manifest]) -> set[str]:
    return {one["kind"] for one in manifests}


def test_helm_finds_nothing_to_mend() -> None:
    assert [one for one in helm_lint(CHART, strict=True)["messages"] if one["severity"] > 1] == []


def test_the_chart_has_the_version_of_the_product() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (about["version"], about["appVersion"]) == (version, version)
    assert f"triton-diagnostics:{version}" in (ROOT / "deploy/compose/compose.yaml").read_text("utf-8")


def test_the_chart_holds_the_dashboards_and_rules_and_nothing_else(chart: Chart) -> None:
    boards = {f"files/dashboards/{path.name}" for path in (ROOT / "dashboards").glob("*.json")}
    assert {one["name"] for one in chart.files} == boards | {".helmignore", "README.md", "files/prometheusrule.yaml"}


def test_the_schema_of_the_values_accepts_the_defaults_and_describes_each(chart: Chart) -> None:
    chart.validate_schema()
    described = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert set(chart.values) == set(described["properties"]) - {"global"}


@pytest.mark.parametrize(
    "values",
    [
        {"worker": 2},
        {"workers": 0},
        {"workers": "2"},
        {"config": "# nothing is watched"},
        {"image": {"repo": "a"}},
        {"database": {"url": "postgresql://diag:secret@db/diag"}},
        {"secrets": ["a", "a"]},
        {"web": {"secret": "Not_A_Name"}},
        {"prometheusOperator": True},
        {"serviceMonitor": {"interval": "soon"}},
        {"serviceMonitor": {"triton": {"selector": {"app.kubernetes.io/name": None}}}},
        {"prometheusRule": {"runbooks": "runbooks"}},
        {"dashboards": {"label": {}}},
        {"networkPolicy": {"triton": {"ports": []}}},
        {"ingress": {"host": "https://diag.example.org"}},
        {"extraEnv": [{"value": "without a name"}]},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"networkPolicy": {"prometheus": {"podLabels": {"a": 1}}}},
    ],
    ids=str,
)
def test_the_schema_of_the_values_refuses(chart: Chart, values: dict[str, Any]) -> None:
    with pytest.raises(HelmValuesError):
        chart.validate_schema(values)


def test_a_fleet_without_a_shared_history_is_refused(chart: Chart) -> None:
    with pytest.raises(HelmRenderError, match=r"set database\.url"):
        chart.render({"workers": 2}, name="diag")


def test_objects_of_the_operator_are_made_only_where_the_cluster_knows_them(chart: Chart, tmp_path: Path) -> None:
    its = {"ServiceMonitor", "PrometheusRule"}
    assert not its & kinds(made(chart, operator("never")))
    assert not its & kinds(made(chart, operator("auto")))
    assert its <= kinds(made(chart, operator("always")))
    # A cluster's APIs cannot be given here: one that every cluster has stands for the operator's.
    shutil.copytree(CHART, tmp_path / "chart")
    helpers = tmp_path / "chart/templates/_helpers.tpl"
    text = helpers.read_text("utf-8")
    assert text.count('.Has "monitoring.coreos.com/v1"') == 1
    helpers.write_text(text.replace('.Has "monitoring.coreos.com/v1"', '.Has "apps/v1"'), "utf-8")
    with Chart.load(tmp_path / "chart") as known:
        assert its <= kinds(made(known, operator("auto")))
        assert not its & kinds(made(known, operator("never")))


# Each leaf with a value of its own, which must be found in what is made.
UNUSUAL: dict[str, Any] = {
    "image": {"repository": "registry.test/unusual-image", "tag": "unusual-tag", "pullPolicy": "Never"},
    "imagePullSecrets": [{"name": "unusual-pull"}],
    "nameOverride": "unusual-name",
    "fullnameOverride": "unusual-full",
    "config": '[[server]]\nurl = "http://unusual-config:8000"\n',
    "workers": 17,
    "web": {"secret": "unusual-web", "allowedHosts": ["unusual-host"], "externalUrl": "https://unusual-url"},
    "ingress": {"enabled": True, "className": "unusual-class", "annotations": {"unusual-note": "unusual-ingress"},
                "host": "unusual-host.test", "tlsSecret": "unusual-tls"},
    "extraEnv": [{"name": "UNUSUAL_VARIABLE", "value": "unusual-variable"}],
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": 3},
    "database": {"url": "postgresql://unusual-database/x", "secret": "unusual-password"},
    "secrets": ["unusual-secret"],
    "persistence": {"size": "123Gi", "storageClassName": "unusual-class"},
    "resources": {"requests": {"cpu": "123m"}, "limits": {"memory": "1234Mi"}},
    "podAnnotations": {"unusual-annotation": "unusual-note"},
    "nodeSelector": {"unusual-node": "unusual-zone"},
    "tolerations": [{"key": "unusual-taint", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "unusual-affinity", "operator": "Exists"}]}]}}},
    "prometheusOperator": "always",
    "serviceMonitor": {
        "interval": "123s",
        "labels": {"unusual-select": "unusual-prometheus"},
        "triton": {"namespace": "unusual-serving", "port": "unusual-port", "metricsPort": 12345,
                   "selector": {"unusual-triton": "unusual-service"}},
    },
    "prometheusRule": {"labels": {"unusual-rule": "unusual-rules"}, "runbooks": "https://unusual-runbooks"},
    "dashboards": {"labels": {"unusual-board": "unusual-sidecar"}, "annotations": {"unusual-folder": "unusual-shelf"}},
    "networkPolicy": {
        "prometheus": {"namespace": "unusual-from", "podLabels": {"unusual-source": "unusual-p"}},
        "extraIngress": [{"from": [{"ipBlock": {"cidr": "192.0.2.1/32"}}]}],
        "triton": {"namespace": "unusual-to", "podLabels": {"unusual-target": "unusual-t"}, "ports": [12346]},
        "alertmanager": {"namespace": "unusual-am", "podLabels": {"unusual-alerts": "unusual-a"}, "port": 12347},
        "postgresql": {"namespace": "unusual-pg", "podLabels": {"unusual-rows": "unusual-r"}, "port": 12348},
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "192.0.2.2/32"}}]}],
    },
}  # fmt: skip


def leaves(tree: Any) -> Iterator[str]:
    """Yield every value, and every key that is a label's name."""
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from [key] if key.startswith("unusual-") else []
            yield from leaves(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from leaves(inner)
    else:
        yield str(tree)


def test_every_value_is_found_in_what_is_made_and_fits_the_schemas(chart: Chart) -> None:
    chart.validate_schema(UNUSUAL)
    manifests = made(chart, UNUSUAL)
    assert [fault for one in manifests for fault in faults(one)] == []
    text = "\n".join(leaves(manifests))
    assert [leaf for leaf in leaves(UNUSUAL) if leaf not in text and leaf != "always"] == []


def test_what_can_be_switched_off_is_not_made(chart: Chart) -> None:
    off = {
        "dashboards": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceMonitor": {"triton": {"enabled": False}},
        "prometheusOperator": "always",
    }
    manifests = made(chart, off)
    assert [one["metadata"]["name"] for one in manifests if one["kind"] == "ServiceMonitor"] == [NAME]
    assert [one["kind"] for one in manifests].count("ConfigMap") == 1
    assert "NetworkPolicy" not in kinds(manifests)


def test_alerts_lead_to_the_runbooks_that_are_given(chart: Chart) -> None:
    (rules,) = (one for one in made(chart, UNUSUAL) if one["kind"] == "PrometheusRule")
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    links = {rule["annotations"]["runbook_url"].rpartition("/")[0] for rule in alerts}
    assert links == {"https://unusual-runbooks"}


def test_the_path_of_the_external_url_is_before_all_that_is_requested(chart: Chart) -> None:
    manifests = made(chart, {**operator("always"), "web": {"externalUrl": "https://ops.example.org/diag/"}})
    (deployment,) = (one for one in manifests if one["kind"] == "Deployment")
    (diag,) = deployment["spec"]["template"]["spec"]["containers"]
    paths = {diag[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    (monitor,) = (one for one in manifests if one["metadata"]["name"] == NAME and one["kind"] == "ServiceMonitor")
    paths.add(monitor["spec"]["endpoints"][0]["path"])
    assert paths == {"/diag/healthz", "/diag/readyz", "/diag/metrics"}
    given = {one["name"]: one.get("value") for one in diag["env"]}
    web = load(None, {name: value for name, value in given.items() if value}, {}).settings.web
    assert prefix_of(web.external_url, web.route_prefix).routes == "/diag"


def test_names_stay_short_enough_for_pods_of_a_fleet(chart: Chart) -> None:
    manifests = made(chart, {**FLEET, "fullnameOverride": ""}, name="a" * 53)
    (workload,) = (one for one in manifests if one["kind"] == "StatefulSet")
    # A label holds the pod's name with its number, or the revision's, of ten letters.
    assert len(workload["metadata"]["name"]) <= 63 - len("-0123456789")
    assert all(len(one["metadata"]["name"]) <= 63 for one in manifests)


def test_found_pods_take_a_token_and_a_role_that_only_lists_and_watches(chart: Chart) -> None:
    without, values = made(chart, {}), {"discovery": {"namespaces": ["a", "b"], "apiServer": ["10.0.0.1/32"]}}
    assert not {"Role", "RoleBinding"} & kinds(without)
    manifests = made(chart, values)
    roles = [one for one in manifests if one["kind"] == "Role"]
    assert [one["metadata"]["namespace"] for one in roles] == ["a", "b"]
    assert all(
        one["rules"] == [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list", "watch"]}]
        for one in roles
    )
    (account,) = [one["metadata"] for one in manifests if one["kind"] == "ServiceAccount"]
    for binding in (one for one in manifests if one["kind"] == "RoleBinding"):
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
        assert binding["roleRef"]["name"] in {one["metadata"]["name"] for one in roles}
    (policy,) = [one for one in manifests if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == NAME]
    assert {"ipBlock": {"cidr": "10.0.0.1/32"}} in policy["spec"]["egress"][-1]["to"]
    for found, token in ((manifests, True), (without, False)):
        (pod,) = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"]
        assert pod["automountServiceAccountToken"] is token
    assert [fault for one in manifests for fault in faults(one)] == []


def test_a_chart_may_name_what_finds_servers_instead_of_servers(chart: Chart) -> None:
    assert made(chart, {"config": "[[discovery.kubernetes]]\nnamespace = 'a'\n"})


def container(manifests: list[Manifest], kind: str) -> Manifest:
    (workload,) = (one for one in manifests if one["kind"] == kind)
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return found


def test_an_ingress_leads_to_the_service_by_a_name_that_it_answers_to(chart: Chart) -> None:
    ingress = {"enabled": True, "host": "ops.example.org"}
    manifests = made(chart, {"ingress": ingress, "web": {"externalUrl": "https://ops.example.org/diag"}})
    (one,) = (found for found in manifests if found["kind"] == "Ingress")
    (service,) = (found for found in manifests if found["kind"] == "Service")
    (rule,) = one["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("ops.example.org", "/diag")
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    assert path["backend"]["service"]["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
    hosts = next(e for e in container(manifests, "Deployment")["env"] if e["name"] == "DIAG_WEB__ALLOWED_HOSTS")
    assert "ops.example.org" in hosts["value"].split(",")
    assert "Ingress" not in kinds(made(chart, {}))


def test_nodes_are_drained_of_one_worker_at_a_time_and_of_a_single_pod_freely(chart: Chart) -> None:
    (budget,) = (one for one in made(chart, FLEET) if one["kind"] == "PodDisruptionBudget")
    (workload,) = (one for one in made(chart, FLEET) if one["kind"] == "StatefulSet")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == workload["spec"]["selector"]
    assert "PodDisruptionBudget" not in kinds(made(chart, {}))
    off = {**FLEET, "podDisruptionBudget": {"enabled": False}}
    assert "PodDisruptionBudget" not in kinds(made(chart, off))


def test_each_worker_has_an_address_of_its_own(chart: Chart) -> None:
    values = {**FLEET, "web": {"externalUrl": "https://diag-$(DIAG_FLEET__WORKER).example.org"}}
    names = [one["name"] for one in container(made(chart, values), "StatefulSet")["env"]]
    # Kubernetes fills in what was defined before.
    assert names.index("DIAG_FLEET__WORKER") < names.index("DIAG_WEB__EXTERNAL_URL")


def test_the_pod_of_helm_test_reaches_the_service_and_is_none_of_it(chart: Chart) -> None:
    manifests = made(chart, {})
    (pod,) = (one for one in manifests if one["kind"] == "Pod")
    own, policy = sorted(
        (one for one in manifests if one["kind"] == "NetworkPolicy"), key=lambda one: str(one["metadata"]["name"])
    )
    (service,) = (one for one in manifests if one["kind"] == "Service")
    labels = pod["metadata"]["labels"]
    sources = [one["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for one in rule["from"]]
    assert sources == [labels]
    assert policy["spec"]["podSelector"] == own["spec"]["podSelector"]
    assert int(policy["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0
    assert not service["spec"]["selector"].items() <= labels.items()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert service["metadata"]["name"] in pod["spec"]["containers"][0]["env"][0]["value"]
