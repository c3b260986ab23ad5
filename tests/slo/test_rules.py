"""Rules of objectives on the real promtool: they fire, stay silent at one failure of little traffic, and end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import yaml

from diagnostics.gen import slo_rules
from diagnostics.gen.slo_rules import EXAMPLE, prometheus_rule, rule_file
from diagnostics.slo.reading import read_slos
from diagnostics.slo.slo import Promise, Promql, Slo, Triton
from exporters.sinks import exposition
from tests.gen.conftest import ROOT, Promtool, promtool

__all__ = ["promtool"]
OURS = Slo(name="chat", objective=0.999, sli=Triton(promise=Promise.LATENCY, model="chat", seconds=0.5))
THEIRS = Slo(
    name="gate",
    objective=0.999,
    sli=Promql(total="sum(rate(all_total[$window]))", bad="sum(rate(bad_total[$window]))"),
    labels={"team": "web"},
)


def page(slo: Slo, burn: str) -> dict[str, object]:
    windows = "1h and 5m at 14.4 times or 6h and 30m at 6 times"
    return {
        "exp_labels": {"severity": "critical", "slo": slo.name, **slo.labels},
        "exp_annotations": {
            "summary": f"{slo.name} burns its budget {burn} times as fast as allowed",
            "description": f"The budget burned over the last {windows} the allowed rate or more, with more bad events "
            "than chance explains. See diag slo for causes and incidents, and diag explain for the current cause",
            "runbook_url": "runbooks/slo-burns-fast.md",
        },
    }


def run_rules(
    tmp_path: Path, promtool: Promtool, slo: Slo, series: dict[str, str], pages: dict[int, list[object]]
) -> None:
    """Run promtool on series with a sample a minute; `pages` are the pages by minute."""
    (tmp_path / "rules.yaml").write_text(rule_file([slo], "runbooks"))
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "2m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": text} for name, text in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": "TritonSloBurnsFast", "exp_alerts": alerts}
                    for minute, alerts in pages.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(test))
    done = promtool("test", "rules", str(tmp_path / "test.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def counter(per_minute: float, minutes: int, start: float = 0) -> str:
    return f"{start:g}+{per_minute:g}x{minutes}"


def ours(bad: str, total: str) -> dict[str, str]:
    labels = '{slo="chat",deployment="d",server="s",model="chat"}'
    return {f"diag_slo_events_total{labels}": total, f"diag_slo_bad_events_total{labels}": bad}


def test_a_fast_burn_pages_and_ends_with_it(tmp_path: Path, promtool: Promtool) -> None:
    # 5 % of 600 requests a minute are bad for an hour, 50 times what is allowed.
    bad = f"{counter(30, 60)} {counter(0, 120, 1800)}"
    run_rules(tmp_path, promtool, OURS, ours(bad, counter(600, 200)), {60: [page(OURS, "50")], 100: []})


def test_one_failure_at_ten_requests_an_hour_pages_nobody(tmp_path: Path, promtool: Promtool) -> None:
    bad = f"{counter(0, 60)} {counter(0, 60, 1)}"
    run_rules(tmp_path, promtool, OURS, ours(bad, f"0+{1 / 6:.6f}x121"), {62: [], 64: [], 90: []})


def test_replicas_and_restarts_are_counted_once(tmp_path: Path, promtool: Promtool) -> None:
    # Two servers, one of which restarts half way: together 2 % bad.
    series = {}
    for server, restarts in (("a", False), ("b", True)):
        labels = f'{{slo="chat",deployment="d",server="{server}",model="chat"}}'
        for name, rate in (("diag_slo_events_total", 300), ("diag_slo_bad_events_total", 6)):
            again = f"{counter(rate, 30)} {counter(rate, 90)}" if restarts else counter(rate, 121)
            series[f"{name}{labels}"] = again
    run_rules(tmp_path, promtool, OURS, series, {110: [page(OURS, "20")]})


def test_own_queries_burn_too_and_carry_their_labels(tmp_path: Path, promtool: Promtool) -> None:
    series = {"all_total": counter(600, 120), "bad_total": counter(30, 120)}
    run_rules(tmp_path, promtool, THEIRS, series, {90: [page(THEIRS, "50")]})


def test_bad_events_that_never_happened_are_none_and_not_absent(tmp_path: Path, promtool: Promtool) -> None:
    good = Slo(name="gate", objective=0.99, sli=Promql(total="increase(all[$window])", good="increase(good[$window])"))
    run_rules(tmp_path, promtool, good, {"all": counter(60, 90), "good": counter(60, 90)}, {80: []})


def test_promtool_accepts_the_rules_also_within_the_operators_resource(tmp_path: Path, promtool: Promtool) -> None:
    resource = yaml.safe_load(prometheus_rule([OURS, THEIRS], "https://example.org/runbooks/"))
    assert (resource["kind"], resource["apiVersion"]) == ("PrometheusRule", "monitoring.coreos.com/v1")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(resource["spec"]))
    done = promtool("check", "rules", str(tmp_path / "rules.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "https://example.org/runbooks/slo-burns-fast.md" in (tmp_path / "rules.yaml").read_text()


def test_rules_ask_for_what_the_service_exports() -> None:
    exported = (f"{exposition.EVENTS}_total", f"{exposition.BAD}_total")
    assert exported == (slo_rules.EVENTS, slo_rules.BAD)


def test_the_example_of_the_repository_is_what_it_says() -> None:
    def bare(slo: Slo) -> Slo:
        return replace(slo, where="")

    assert tuple(map(bare, read_slos([ROOT / "rules/slo/example.yaml"]))) == EXAMPLE
