from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from diagnostics.errors import UsageError
from diagnostics.gen.slo_rules import rules_text
from diagnostics.settings.load import load
from diagnostics.slo.burn import cautions
from diagnostics.slo.reading import configured, read_slos
from diagnostics.slo.slo import Promise, Promql, Slo, Triton

DAY = 86400.0
SHORT = """\
slo:
  - name: chat-latency
    objective: 0.99
    ensemble: chat
    latency: 500ms
    tenant: {customer: acme}
  - name: chat-starts
    objective: 0.95
    ensemble: chat
    time_to_first_token: 1s
    period: 7d
"""
SLOTH = """\
version: prometheus/v1
service: chat
labels: {owner: ml}
slos:
  - name: requests
    objective: 99.9
    description: most requests succeed
    sli:
      events:
        error_query: sum(rate(nv_inference_request_failure{model="chat"}[{{.window}}]))
        total_query: |
          sum(rate(nv_inference_request_success{model="chat"}[{{.window}}]))
          + sum(rate(nv_inference_request_failure{model="chat"}[{{.window}}]))
    alerting: {name: Whatever}
  - name: gateway
    objective: 99
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"5.."}[{{ .window }}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
"""
OPENSLO = """\
apiVersion: openslo/v1
kind: DataSource
metadata: {name: prom}
spec: {type: Prometheus, connectionDetails: {url: "http://prometheus"}}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: first-token}
spec:
  ratioMetric:
    counter: true
    good:
      metricSource:
        metricSourceRef: prom
        spec: {query: 'nv_inference_first_response_histogram_ms_bucket{model="chat",le="500"}'}
    total:
      metricSource:
        metricSourceRef: prom
        spec: {query: 'nv_inference_first_response_histogram_ms_count{model="chat"}'}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat}
spec:
  service: chat
  indicatorRef: first-token
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives:
    - {displayName: Most, target: 0.99}
    - {displayName: Nearly all, targetPercent: 99.9}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: slow}
spec:
  indicator:
    metadata: {name: time}
    spec:
      thresholdMetric:
        metricSource:
          type: Prometheus
          spec: {query: 'nv_inference_request_duration_us{model="chat"}'}
  timeWindow: [{duration: 30d, isRolling: true}]
  objectives: [{op: lte, value: 250000, target: 0.9}]
"""


def written(tmp_path: Path, text: str) -> tuple[Slo, ...]:
    (tmp_path / "slos.yaml").write_text(text)
    return read_slos([tmp_path / "slos.yaml"])


def test_the_short_form_says_everything_in_a_few_words(tmp_path: Path) -> None:
    latency, starts = written(tmp_path, SHORT)
    tags = (("customer", "acme"),)
    assert latency.sli == Triton(promise=Promise.LATENCY, model="chat", seconds=0.5, tags=tags)
    assert (latency.objective, latency.period) == (0.99, 30 * DAY)
    assert starts.sli == Triton(promise=Promise.FIRST_TOKEN, model="chat", seconds=1.0)
    assert starts.period == 7 * DAY
    assert starts.where.endswith("slos.yaml:7")


def test_objectives_in_the_settings_are_the_same_ones(tmp_path: Path) -> None:
    (tmp_path / "slos.yaml").write_text(SHORT)
    file = tmp_path / "diag.toml"
    table = '[[slo]]\nname = "a"\nobjective = 0.9\nmodel = "m"\navailability = true\n'
    file.write_text(f'slo_files = ["{tmp_path / "slos.yaml"}"]\n{table}')
    first, *others = configured(load(file, {}, {}))
    assert first.sli == Triton(promise=Promise.AVAILABILITY, model="m")
    assert [one.name for one in others] == ["chat-latency", "chat-starts"]


TABLE = '[[slo]]\nname = "a"\nobjective = 0.9\nmodel = "m"\navailability = true\n'


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ('slo_files = ["gone.yaml"]\n', ":1: slo_files: gone.yaml: cannot be read: no such file"),
        (
            TABLE.replace("0.9", "1.5"),
            ":2: slo.0: an objective of 150 % cannot be missed or met; write 99.9 % as 0.999",
        ),
        (TABLE + 'period = "0d"\n', ":2: slo.0: a period is between an hour and a year"),
        (TABLE.replace("true", "false"), ":2: slo.0: a promises nothing"),
        (
            '[[deployment]]\nname = "d"\nservers = ["s"]\n' + TABLE + 'deployment = "e"\n',
            ":9: slo.0.deployment: there is",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_reported_with_its_line_there(tmp_path: Path, text: str, stated: str) -> None:
    (tmp_path / "diag.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        configured(load(tmp_path / "diag.toml", {}, {}))
    assert str(caught.value).startswith(f"{tmp_path / 'diag.toml'}{stated}")


def test_a_query_over_tritons_failures_in_sloths_form_is_measured_by_us_and_another_is_kept(tmp_path: Path) -> None:
    ours, kept = written(tmp_path, SLOTH)
    assert (ours.name, ours.objective) == ("chat-requests", pytest.approx(0.999))
    assert ours.sli == Triton(promise=Promise.AVAILABILITY, model="chat")
    assert ours.labels == {"service": "chat", "owner": "ml"}
    assert kept.sli == Promql(
        total="sum(rate(http_requests_total[$window]))", bad='sum(rate(http_requests_total{code=~"5.."}[$window]))'
    )


def test_alerts_that_sloth_switches_off_are_not_reported_and_its_labels_are_theirs(tmp_path: Path) -> None:
    reported = "alerting: {name: Whatever, labels: {team: a}, page_alert: {disable: true}, ticket_alert: {labels: {}}}"
    ours, kept = written(tmp_path, SLOTH.replace("alerting: {name: Whatever}", reported))
    assert ours.labels == {"service": "chat", "owner": "ml", "team": "a"}
    assert (ours.quiet, kept.quiet) == ({"page"}, frozenset())
    alerts = re.findall("alert: (.*)", rules_text([ours, kept], "https://x"))
    assert alerts == ["TritonSloBurnsSlowly", "TritonSloUnmeasured", "TritonSloBurnsFast", "TritonSloBurnsSlowly"]


def test_labels_of_a_file_are_those_of_its_alerts_and_their_severity_goes_before_ours(tmp_path: Path) -> None:
    reported = (
        "alerting: {labels: {team: a}, page_alert: {labels: {severity: sev1, team: b}}, "
        "ticket_alert: {labels: {queue: q}}}"
    )
    (ours, _) = written(tmp_path, SLOTH.replace("alerting: {name: Whatever}", reported))
    rules = yaml.safe_load(rules_text([ours], "https://x"))["groups"][0]["rules"]
    page, ticket, unmeasured = (rule["labels"] for rule in rules if "alert" in rule)
    common = {"service": "chat", "owner": "ml", "slo": "chat-requests"}
    assert page == common | {"severity": "sev1", "team": "b"}
    assert ticket == common | {"severity": "warning", "team": "a", "queue": "q"}
    assert unmeasured == common | {"severity": "warning", "team": "a"}


@pytest.mark.parametrize(
    ("changes", "stated"),
    [
        ({}, []),
        (
            {"period": 3600.0},
            ["a: its shortest window is 30 s: alerts stay silent where"],
        ),
        (
            {"objective": 0.8},
            ["a: when every event is bad its budget burns 5 times as fast"],
        ),
        ({"objective": 0.8, "quiet": frozenset({"page"})}, []),
    ],
)
def test_alerts_that_cannot_fire_are_reported_before_they_are_loaded(
    changes: dict[str, Any], stated: list[str]
) -> None:
    slo = Slo(name="a", objective=0.99, sli=Triton(promise=Promise.AVAILABILITY, model="m"))
    reported = list(cautions(replace(slo, **changes)))
    assert len(reported) == len(stated)
    assert all(one.startswith(begin) for one, begin in zip(reported, stated, strict=True))


def test_openslo_refers_between_the_documents_of_a_file(tmp_path: Path) -> None:
    found = {one.name: one for one in written(tmp_path, OPENSLO)}
    slow, most, nearly = (found[name] for name in ("slow", "chat-most", "chat-nearly-all"))
    assert most.sli == nearly.sli == Triton(promise=Promise.FIRST_TOKEN, model="chat", seconds=0.5)
    assert (most.objective, nearly.objective, most.period) == (0.99, pytest.approx(0.999), 28 * DAY)
    assert slow.sli == Triton(promise=Promise.LATENCY, model="chat", seconds=0.25)


@pytest.mark.parametrize(
    ("text", "line", "stated"),
    [
        (SHORT.replace("latency: 500ms", "latency: 500"), 5, "which is no duration"),
        (SHORT.replace("latency: 500ms", "latncy: 500ms"), 5, "has no key 'latncy'"),
        (SHORT.replace("objective: 0.99", "objective: 99"), 2, "an objective of 9900 % cannot be missed or met"),
        (SHORT.replace("objective: 0.99", "objective: many"), 3, "which is no number"),
        (SHORT.replace("chat-starts", "chat-latency"), 7, "is the name of another too"),
        (SHORT.replace("    ensemble: chat\n", "", 1), 2, "names no model or ensemble"),
        (SHORT.replace("name: chat-latency", 'name: "a b"'), 2, "cannot be a name"),
        (SHORT.replace("    latency: 500ms\n", ""), 2, "promises nothing"),
        (
            SHORT.replace("    latency: 500ms", "    labels: {slo: x}\n    latency: 500ms"),
            2,
            "the label slo is the objective's",
        ),
        (
            SLOTH.replace("objective: 99.9", "objective: 0.999"),
            6,
            "objective is 0.999 %, which is not a sensible objective; it is in",
        ),
        (SLOTH.replace("prometheus/v1", "prometheus/v2"), 1, "version 'prometheus/v2' is not supported"),
        (SLOTH.replace("[{{.window}}]", "", 1), 10, "chat-requests: error_query has no range"),
        (OPENSLO.replace("targetPercent", "target_percent"), 31, "has no key 'target_percent'"),
        (OPENSLO.replace("indicatorRef: first-token", "indicatorRef: last-token"), 26, "there is no SLI 'last-token'"),
        (OPENSLO.replace("duration: 4w", "duration: 1M"), 27, "duration is '1M'"),
        (OPENSLO.replace("Occurrences", "Timeslices"), 28, "budgets of Timeslices are not supported"),
        (OPENSLO.replace("type: Prometheus, conn", "type: Datadog, conn"), 17, "'Datadog' are not supported"),
        (SHORT.replace("objective: 0.99", 'objective: "99%"'), 3, "which is no number; write 99 % as 0.99"),
        (SHORT.replace("period: 7d", "period: 0d"), 7, "a period is between an hour and a year"),
        (SHORT.replace("latency: 500ms", "availability: yes"), 5, "'yes', which is neither true nor false"),
        ("slo:\n  - {name: a}\n  - chat\n", 3, "entry 2 of slo is no mapping"),
        (SLOTH.replace('"5.."}', '"5.."'), 19, "chat-gateway: error_query is no PromQL: a ')' closes nothing"),
        (SLOTH.replace('"5.."}', '"5..}'), 19, "chat-gateway: error_query is no PromQL: a quote"),
        (OPENSLO.replace('le="500"}', 'le="500"} /'), 15, "chat-most: query is no PromQL: nothing follows '/'"),
        (SHORT.replace("{customer: acme}", "{cust-omer: acme}"), 2, "'cust-omer' is no label of Prometheus"),
        (SLOTH.replace("{owner: ml}", "{__name__: ml}"), 5, "'__name__' is no label of Prometheus"),
        (
            SLOTH.replace("owner: ml", "owner: '{{ $x'"),
            5,
            "the label owner holds a template of Prometheus",
        ),
        (OPENSLO.replace("targetPercent: 99.9", "targetPercent: 99.9, target: 0.9"), 31, "has a target and a target"),
        (OPENSLO.replace("    total:", "    bad: {}\n    total:"), 16, "chat-most: gives good and bad events"),
        (OPENSLO + "---\n" + OPENSLO[: OPENSLO.index("---")], 47, "there is another DataSource 'prom', in line 1"),
        (OPENSLO.replace("openslo/v1", "sloth.slok.dev/v1", 1), 1, "is Sloth's resource for Kubernetes"),
        ("hello: world\n", 1, "is in no form of objectives that is known"),
        ("slo: [{name: a, objective: [}]\n", 1, "is not YAML: expected the node content"),
        ("a: &x 1\n", 1, "anchors and aliases are not allowed"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_to_do(tmp_path: Path, text: str, line: int, stated: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(tmp_path, text)
    reported = str(caught.value)
    assert stated in reported
    assert reported.startswith(f"{tmp_path / 'slos.yaml'}:{line}: ")
    assert "\n" not in reported


def test_a_query_loses_its_comments_and_keeps_what_stands_in_quotes(tmp_path: Path) -> None:
    query = """sum(rate(http_requests_total[{{.window}}]))"""
    commented = """|
          sum( # of all (
            rate(http_requests_total{path="a  # b"}[{{.window}}]))"""
    (_, kept) = written(tmp_path, SLOTH.replace(query, commented))
    assert isinstance(kept.sli, Promql)
    assert kept.sli.total == 'sum( rate(http_requests_total{path="a  # b"}[$window]))'


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="holds nothing"):
        written(tmp_path, text)
