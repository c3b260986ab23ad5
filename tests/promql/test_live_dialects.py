"""VictoriaMetrics' own dialect reads what was written for Prometheus: rules, panels, what `diag slo` asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
import yaml

from diagnostics.gen.slo_rules import rules_text
from diagnostics.slo.report import report_on
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import PrometheusApi, parse_prometheus
from exporters.sources.prometheus_slo import StoredEvents
from tests.grafana.test_dashboards import expressions, requested
from tests.promql.victoria_metrics import victoria_metrics
from tests.service.notifications.alertmanagers import ROOT
from tests.slo.test_rules import OURS, THEIRS

pytestmark = pytest.mark.live


def every_expression() -> Iterator[str]:
    yield from (requested(expr) for *_, expr in expressions())
    texts = [file.read_text() for part in ("recording", "alerts") for file in (ROOT / "rules" / part).glob("*.yaml")]
    for text in (*texts, rules_text([OURS, THEIRS], "https://example.org/runbooks")):
        yield from (rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"])


def test_victoria_metrics_reads_every_rule_every_panel_and_every_question_about_objectives(tmp_path: Path) -> None:
    with victoria_metrics(tmp_path, []) as url, urllib3.PoolManager(retries=False, timeout=10) as pool:

        def status(expr: str) -> int:
            return pool.request("POST", f"{url}/api/v1/query", fields={"query": expr}, encode_multipart=False).status

        assert status("summ(up)") != 200
        assert {expr for expr in {*every_expression()} if status(expr) != 200} == set()
        api = PrometheusApi(parse_prometheus(f"prometheus+{url}"), SourceOptions())
        for slo in (OURS, THEIRS):
            assert report_on(slo, StoredEvents(api, slo, api.clock()), api.clock()).silence
