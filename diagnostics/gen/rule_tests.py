"""Unit tests of rules for `promtool test rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diagnostics.gen.alert import Alert, Situation, group_name
from diagnostics.gen.yaml_text import Tree

_AFTER_MINUTES = 3


def plain_situations(
    labels: Mapping[str, str], series: str, *, hold: int, bad: str, good: str, silent: Mapping[str, str]
) -> tuple[Situation, ...]:
    """Return the situations of an alert on one series whose value says it all.

    Args:
        labels: labels of the alert that fires.
        series: the example's series.
        hold: minutes for which it must be bad.
        bad: samples while the expression holds; `_` is no sample.
        good: samples once it no longer does; `stale` is the series' end.
        silent: series under which the alert must stay silent, with their constant sample.

    """
    found = (fires_and_resolves(labels, {series: (bad, good)}, hold=hold),)
    return (*found, stays_silent({name: samples(value, hold + _AFTER_MINUTES) for name, value in silent.items()}, hold))


def fires_and_resolves(labels: Mapping[str, str], series: Mapping[str, tuple[str, str]], *, hold: int) -> Situation:
    """Return the situation in which series are bad for long enough, then good: the two samples of each."""
    last = hold + _AFTER_MINUTES
    return Situation(
        title="fires once it has held long enough and not before, and resolves when the cause is gone",
        series={
            name: f"{samples(bad, hold)} {good if good == 'stale' else samples(good, _AFTER_MINUTES)}"
            for name, (bad, good) in series.items()
        },
        expect=((hold - 1, ()), (hold, (labels,)), (last, ())),
    )


def stays_silent(series: Mapping[str, str], hold: int) -> Situation:
    """Return the situation in which nothing may fire."""
    return Situation(
        title="stays silent when the cause is another one or gone",
        series=series,
        expect=((hold + _AFTER_MINUTES, ()),),
    )


def samples(value: str, last: int) -> str:
    """Return a sample for each minute from 0 to `last`; `1x2` means 1 1 1 but `_x2` only two gaps."""
    return f"{value}x{last + 1 if value == '_' else last}"


def rule_test(alert: Alert, runbooks: str, recorded: Sequence[str]) -> Tree:
    """Return the test file of one alert; it names the rule files relative to itself.

    Args:
        alert: the alert.
        runbooks: address of the folder of the runbooks.
        recorded: names of the files, and groups, of recording rules that its expression needs, in their order.

    """
    files = [f"../recording/{name}.yaml" for name in recorded]
    groups = [group_name("Triton", name) for name in recorded]
    return {
        "rule_files": [*files, f"../alerts/{alert.group}.yaml"],
        **({"group_eval_order": [*groups, alert.group_name]} if recorded else {}),
        "evaluation_interval": "1m",
        "tests": [_test(alert, situation, runbooks) for situation in alert.situations],
    }


def _test(alert: Alert, situation: Situation, runbooks: str) -> Tree:
    return {
        "name": situation.title,
        "interval": "1m",
        "input_series": [{"series": series, "values": text} for series, text in situation.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": alert.name,
                "exp_alerts": [alert.expected(labels, runbooks) for labels in firing],
            }
            for minute, firing in situation.expect
        ],
    }
