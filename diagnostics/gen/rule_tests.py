"""Unit tests of alerts for `promtool test rules`: each fires when it has held long enough, else not, and resolves."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.gen.alert import Alert
from diagnostics.gen.yaml_text import Tree

_AFTER_MINUTES = 3


def rule_test(alert: Alert, runbooks: str) -> Tree:
    """Return the test file of one alert; it names the rule file relative to itself."""
    return {
        "rule_files": [f"../alerts/{alert.group}.yaml"],
        "evaluation_interval": "1m",
        "tests": [_fires(alert, runbooks), _silent(alert), _resolves(alert, runbooks)],
    }


def _fires(alert: Alert, runbooks: str) -> Tree:
    hold = alert.hold_minutes
    return _test(
        "fires once it has held long enough, and not before",
        {alert.series: _samples(alert.bad, hold + _AFTER_MINUTES)},
        [_at(alert, hold - 1, []), _at(alert, hold, [alert.expected(runbooks)])],
    )


def _silent(alert: Alert) -> Tree:
    last = alert.hold_minutes + _AFTER_MINUTES
    values = {series: _samples(value, last) for series, value in alert.silent.items()}
    return _test("stays silent when the cause is another one or gone", values, [_at(alert, last, [])])


def _resolves(alert: Alert, runbooks: str) -> Tree:
    hold, after = alert.hold_minutes, _AFTER_MINUTES
    good = alert.good if alert.good == "stale" else _samples(alert.good, after)
    return _test(
        "resolves when the cause is gone",
        {alert.series: f"{_samples(alert.bad, hold)} {good}"},
        [_at(alert, hold, [alert.expected(runbooks)]), _at(alert, hold + after, [])],
    )


def _samples(value: str, last: int) -> str:
    """Return a sample for each minute from 0 to `last`; `1x2` means 1 1 1 but `_x2` only two gaps."""
    return f"{value}x{last + 1 if value == '_' else last}"


def _test(name: str, values: Mapping[str, str], expectations: list[Tree]) -> Tree:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": text} for series, text in values.items()],
        "alert_rule_test": expectations,
    }


def _at(alert: Alert, minute: int, expected: list[Tree]) -> Tree:
    return {"eval_time": f"{minute}m", "alertname": alert.name, "exp_alerts": expected}
