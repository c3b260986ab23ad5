"""The stack on one machine: each file by the program that reads it, and each name by what others call it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from diagnostics.service.http.credentials import Credentials
from diagnostics.service.running import check
from diagnostics.settings.tree import WebSettings
from exporters.sources.access import read_secret
from exporters.sources.address import parse_address
from tests.deploy.schemas import ROOT
from tests.gen.conftest import Promtool, promtool

__all__ = ["promtool"]

COMPOSE = ROOT / "deploy/compose"
FILE = COMPOSE / "compose.yaml"
STACK = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
PROMETHEUS = yaml.safe_load((COMPOSE / "prometheus.yml").read_text("utf-8"))
SETTINGS = tomllib.loads((COMPOSE / "diag.toml").read_text("utf-8"))
# Triton's metrics are two ports above its HTTP, unless told otherwise.
METRICS = 8002
WATCHED = """
rule_files: [{rules}/recording/servers.yaml, {rules}/alerts/scraping.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'up{{job="{job}", instance="{instance}"}}'
        values: 1x70
      - series: 'nv_inference_request_success{{job="{job}", instance="{instance}", model="m", version="1"}}'
        values: 0+60x70
      - series: 'diag_target_up{{job="diag", instance="diag:9177", server="{server}", deployment="d"}}'
        values: 1x70
    alert_rule_test:
      - {{eval_time: 65m, alertname: TritonNotDiagnosed, exp_alerts: []}}
"""


def binds(service: str) -> dict[str, Path]:
    """Return what of this repository is mounted, by its path in the container."""
    mounts = [one.rsplit(":", 2) for one in SERVICES[service]["volumes"] if one.startswith(".")]
    assert all(mode == "ro" for *_, mode in mounts)
    return {inside: (COMPOSE / outside).resolve() for outside, inside, _ in mounts}


def job(name: str) -> dict[str, Any]:
    (found,) = (one for one in PROMETHEUS["scrape_configs"] if one["job_name"] == name)
    return dict(found)


def instance(name: str) -> str:
    """Return the `instance` of the only target of a job."""
    (group,) = job(name)["static_configs"]
    (target,) = group["targets"]
    return str(target)


def validate(text: str) -> None:
    """Let the compose specification judge the file, its variables and merged keys replaced as `docker compose` does."""
    given = re.sub(r"\$\{\w+(?::-([^}]*)|:\?[^}]*)\}", lambda one: one[1] or "/given", text)
    PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(given))).validate()


def test_compose_accepts_the_file() -> None:
    validate(FILE.read_text("utf-8"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("read_only: true", "read_only: perhaps"),
        ("mem_limit: 2g", "mem_limit: much"),
        ("secrets: [token]", "secrets: 1"),
    ],
)
def test_compose_refuses_what_is_mistyped(right: str, wrong: str) -> None:
    text = FILE.read_text("utf-8")
    assert right in text
    with pytest.raises(ValueError, match=re.escape(wrong.partition(":")[0])):
        validate(text.replace(right, wrong, 1))


def test_nothing_is_reached_from_other_machines() -> None:
    published = [port for one in SERVICES.values() for port in one.get("ports", ())]
    assert len(published) >= len(SERVICES)
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in published)


def test_images_are_of_a_known_version() -> None:
    images = [one["image"].removeprefix("${TRITON_IMAGE:-").rstrip("}") for one in SERVICES.values()]
    assert all(re.search(r":v?\d+\.\d+", image) for image in images), images


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "triton"])
def test_everything_but_triton_runs_without_rights_on_a_file_system_that_it_cannot_change(service: str) -> None:
    assert SERVICES[service]["read_only"] is True
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]


def test_what_is_mounted_is_there() -> None:
    mounts = {path for name in SERVICES for path in binds(name).values()}
    assert mounts
    assert [path for path in mounts if not path.exists()] == []
    named = {one.split(":")[0] for service in SERVICES.values() for one in service["volumes"] if one[0].isalpha()}
    assert named == set(STACK["volumes"])
    secret = {one for service in SERVICES.values() for one in service.get("secrets", ())}
    assert secret == set(STACK["secrets"])


def test_the_service_accepts_its_settings_and_asks_for_credentials(tmp_path: Path) -> None:
    for name in ("token", "web.yml"):
        (tmp_path / name).write_text("a-token" if name == "token" else "")
    here = {
        name: value.replace("/run/secrets", str(tmp_path)) for name, value in SERVICES["diag"]["environment"].items()
    }
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "config.pbtxt").write_text("")
    file = tmp_path / "diag.toml"
    file.write_text(binds("diag")["/etc/diag/config/diag.toml"].read_text("utf-8").replace("/models", str(tmp_path)))
    reported = "\n".join(check(file, here, {}, ()))
    assert "web.allow_unauthenticated = false" in reported
    assert Credentials(WebSettings(bearer_token_file=tmp_path / "token"), read_secret).requested


def test_prometheus_reads_its_configuration_and_every_rule(promtool: Promtool, tmp_path: Path) -> None:
    inside = binds("prometheus")
    (tmp_path / "rules").symlink_to(inside["/etc/prometheus/rules"])
    (tmp_path / "token").write_text("a-token")
    text = inside["/etc/prometheus/prometheus.yml"].read_text("utf-8")
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets", str(tmp_path)))
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    files = [path for pattern in PROMETHEUS["rule_files"] for path in ROOT.glob(pattern)]
    assert done.stdout.count("rules found") == len(files) > 5


def test_prometheus_presents_the_token_that_the_service_asks_for() -> None:
    requested = SERVICES["diag"]["environment"]["DIAG_WEB__BEARER_TOKEN_FILE"]
    assert job("diag")["authorization"]["credentials_file"] == requested == "/run/secrets/token"
    assert "token" in SERVICES["prometheus"]["secrets"]


def test_services_are_requested_at_their_names_and_ports() -> None:
    (manager,) = PROMETHEUS["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    (sent,) = SETTINGS["alertmanager"]["urls"]
    assert sent == f"http://{manager}"
    for place in (manager, instance("triton"), instance("diag")):
        name, port = place.split(":")
        assert f"127.0.0.1:{port}:{port}" in SERVICES[name]["ports"], place
    assert instance("diag").split(":")[0] in SETTINGS["web"]["allowed_hosts"]


@pytest.mark.parametrize("other", [False, True])
def test_rules_find_the_triton_under_the_name_that_the_service_gives_it(
    promtool: Promtool, tmp_path: Path, *, other: bool
) -> None:
    (server,) = SETTINGS["server"]
    reported = parse_address(server["url"]).netloc(METRICS)
    names = {"job": job("triton")["job_name"], "instance": instance("triton")}
    file = tmp_path / "test.yaml"
    file.write_text(WATCHED.format(rules=ROOT / "rules", server="10.0.0.1:8002" if other else reported, **names))
    done = promtool("test", "rules", file)
    assert (done.returncode != 0) is other, done.stdout + done.stderr


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    inside = binds("grafana")
    (source,) = yaml.safe_load((inside["/etc/grafana/provisioning/datasources"] / "prometheus.yaml").read_text())[
        "datasources"
    ]
    (provider,) = yaml.safe_load((inside["/etc/grafana/provisioning/dashboards"] / "diag.yaml").read_text())[
        "providers"
    ]
    boards = sorted(inside[provider["options"]["path"]].glob("*.json"))
    assert len(boards) == 7
    variables = [one for path in boards for one in json.loads(path.read_text())["templating"]["list"]]
    assert {one["query"] for one in variables if one["type"] == "datasource"} == {source["type"]}
    assert source["url"] == "http://prometheus:9090"
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (inside[str(home.parent)] / home.name).exists()
