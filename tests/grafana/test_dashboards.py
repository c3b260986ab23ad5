"""The dashboards keep the rules of Grafana's dashboard linter, do not overlap, and ask what Prometheus can parse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.__main__ import BOARDS, FOLDER, files
from dashboards.grafana import dashboard
from dashboards.layout import DashboardSpec
from diagnostics import names
from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.scraping_alerts import META_ALERTS
from tests.gen.conftest import promtool

__all__ = ["promtool"]

EVERY = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
# Grafana's own ids of units; the linter refuses others.
UNITS = {"s", "percentunit", "bytes", "reqps", "cps", "short", "watt", "dateTimeAsIso", "none"}
ANGULAR = {"graph", "singlestat", "table-old", "worldmap"}
VARIABLES = {
    "$__rate_interval": "5m",
    "$job": "triton",
    "$instance": "triton-0:8002",
    "$model": "safety",
    "$slo": "chat",
    "$__range": "1h",
}
# Named like a counter by Triton, and none.
GAUGES = {names.PENDING_REQUESTS}
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")


def panels(board: DashboardSpec) -> list[dict[str, Any]]:
    return [panel for panel in dashboard(board)["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[DashboardSpec, dict[str, Any], str]]:
    for board in BOARDS:
        for panel in panels(board):
            for target in panel["targets"]:
                yield board, panel, target["expr"]


def requested(expr: str) -> str:
    """Return the expression as Grafana would send it."""
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def test_the_committed_files_are_what_the_modules_say() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == {
        path.name: text for path, text in files().items()
    }


@EVERY
def test_no_two_panels_overlap_and_none_leaves_the_grid(board: DashboardSpec) -> None:
    cells = [
        {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        for at in (panel["gridPos"] for panel in dashboard(board)["panels"])
    ]
    assert all(not one & other for one, other in combinations(cells, 2))
    assert max(x for cell in cells for x, _ in cell) == 23


@EVERY
def test_a_dashboard_is_of_a_schema_that_needs_no_migration(board: DashboardSpec) -> None:
    made = dashboard(board)
    assert made["schemaVersion"] >= 39
    assert made["editable"] is False
    assert not {panel["type"] for panel in made["panels"]} & ANGULAR
    numbers = [panel["id"] for panel in made["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert made["title"].startswith("Triton / ")


@EVERY
def test_data_source_job_and_instance_are_variables(board: DashboardSpec) -> None:
    variables = {one["name"]: one for one in dashboard(board)["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    for name in ("job", "instance"):
        one = variables[name]
        assert (one["type"], one["multi"], one["includeAll"], one["allValue"]) == ("query", True, True, ".+")
        assert one["refresh"] == 2  # when the time range changes
        assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@EVERY
def test_every_variable_that_is_used_is_there_and_the_other_way_round(board: DashboardSpec) -> None:
    made = dashboard(board)
    names = {one["name"] for one in made["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)", json.dumps(made["panels"]) + json.dumps(made["annotations"])))
    assert used | {"job"} == names


@EVERY
def test_every_panel_says_what_it_shows_in_which_unit(board: DashboardSpec) -> None:
    for panel in panels(board):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@EVERY
def test_series_that_can_be_several_have_names_of_their_own(board: DashboardSpec) -> None:
    for panel in panels(board):
        if panel["type"] != "table":
            legends = [target["legendFormat"] for target in panel["targets"]]
            assert len({*legends} - {""}) == len(legends), panel["title"]


def test_an_overspent_budget_and_servers_of_the_same_name_can_be_seen() -> None:
    every = {panel["title"]: panel for board in BOARDS for panel in panels(board)}
    budget = every["Budget left"]["fieldConfig"]["defaults"]
    assert (budget.get("min"), budget["custom"]["axisSoftMin"]) == (None, 0)
    assert every["Burn rate"]["fieldConfig"]["defaults"]["min"] == 0
    legends = [target["legendFormat"] for panel in every.values() for target in panel["targets"]]
    of_servers = [one for one in legends if "{{model}}" in one and "{{server}}" in one and "{{slo}}" not in one]
    assert of_servers
    assert all("{{deployment}}" in one for one in of_servers)


def test_every_selector_is_bound_to_the_variables() -> None:
    loose = {
        (board.uid, panel["title"], metric)
        for board, panel, expr in expressions()
        for metric, matchers in SELECTOR.findall(expr)
        if not (
            ('instance=~"$instance"' in matchers and 'job=~"$job"' in matchers) or 'server=~"$instance"' in matchers
        )
    }
    # What the service says of a whole deployment is of no server.
    assert {metric for *_, metric in loose} <= {"diag_verdict"}


def test_counters_are_shown_as_rates_over_the_interval_that_fits_the_scrapes() -> None:
    for _, panel, expr in expressions():
        for metric, _ in SELECTOR.findall(expr):
            if metric in GAUGES:
                continue
            if metric.endswith(("_total", "_sum", "_count", "_us")) or "request_success" in metric:
                assert f"rate({metric}" in expr or f"increase({metric}" in expr, panel["title"]
        assert set(re.findall(r"\[([^\]]+)\]", expr)) <= {"$__rate_interval", "$__range"}


def test_no_ratio_is_bent_at_low_traffic() -> None:
    assert not [panel["title"] for _, panel, expr in expressions() if "clamp_min" in expr or "1 +" in expr]


def test_every_runbook_that_a_panel_leads_to_exists() -> None:
    known = {*catalogue(), *(alert.id for alert in META_ALERTS)}
    linked = {panel.runbook for board in BOARDS for panel in board.panels() if panel.runbook}
    assert linked
    assert linked <= known


def test_prometheus_parses_every_expression(tmp_path, promtool: Callable) -> None:
    rules = [{"record": f"panel:{number}", "expr": requested(expr)} for number, (*_, expr) in enumerate(expressions())]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


@EVERY
def test_the_model_of_grafanas_own_sdk_holds_it(board: DashboardSpec) -> None:
    made = dashboard(board)
    read = Dashboard.from_json(made)
    assert (read.uid, read.title, len(read.panels or ())) == (made["uid"], made["title"], len(made["panels"]))
    again = json.loads(JSONEncoder(sort_keys=True).encode(read))
    assert [panel.get("type") for panel in again["panels"]] == [panel["type"] for panel in made["panels"]]
    for kept, panel in zip(again["panels"], made["panels"], strict=True):
        for part in ("thresholds", "unit"):
            assert _defaults(kept).get(part) == _defaults(panel).get(part)
        assert _links(kept) == _links(panel)
        assert [one["expr"] for one in kept.get("targets", ())] == [one["expr"] for one in panel.get("targets", ())]


def _links(panel: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["title"], one["url"]) for one in _defaults(panel).get("links", ())]


def _defaults(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel.get("fieldConfig", {}).get("defaults", {})
    return found


def test_what_is_bad_by_itself_is_red_and_rows_lead_to_the_service() -> None:
    (board,) = [one for one in BOARDS if one.uid == "diag-overview"]
    by_title = {panel["title"]: panel["fieldConfig"]["defaults"] for panel in panels(board)}
    assert [step["color"] for step in by_title["Share of requests that failed"]["thresholds"]["steps"]] == [
        "green",
        "red",
    ]
    links = {link["title"]: link["url"] for link in by_title["Findings"]["links"]}
    where = "state=open&deployment=${__data.fields.deployment}&check=${__data.fields.check}"
    assert links == {
        "Deployment": "${runbooks}/../deployments/${__data.fields.deployment}",
        "Open incidents": f"${{runbooks}}/../incidents?{where}",
        "Runbook": "${runbooks}/${__data.fields.check}",
    }
    assert {link["url"] for link in by_title["Open incidents"]["links"]} == set(links.values())
    assert next(panel["title"] for panel in panels(board)) == "Latency, 95th percentile"
