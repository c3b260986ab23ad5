"""The page of the metrics that `diag serve` exports, from where they are declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric

from diagnostics.gen.pages import table
from diagnostics.service.own.metrics import OwnMetrics
from exporters.sinks import exposition
from exporters.sinks.exposition import MetricFamily

Row = tuple[str, str, str, str]
_HEAD = """\
# Metrics

`diag serve` exports these at `/metrics`. Units are Prometheus' base units.
`server` equals the `instance` label of Triton's own scrape, so joins work.
[Rules, alerts and recorded metrics](../../rules/README.md) are on a page of their own.
"""
_REBUILT = """\
Triton's page lacks these. With them, `diag explain prometheus+http://…` finds the causes that reading the server finds.
"""


def metrics_page() -> str:
    """Return the page."""
    derived = [family for _, family in exposition.DERIVED.values()]
    verdicts = [one for one in vars(exposition).values() if isinstance(one, MetricFamily)]
    slos = (*exposition.event_metrics({}, {}), *exposition.report_metrics([]))
    parts = {
        "Verdicts and findings": _table(_families(verdicts)),
        "Signals that Triton does not export": _table(_families(derived)),
        "Objectives": _table(_collected(slos)),
        "What a window is rebuilt from": f"{_REBUILT}\n{_table(_families(_declared()))}",
        "The service itself": _table(_own()),
    }
    return "\n\n".join([_HEAD.strip(), *(f"## {title}\n\n{text}" for title, text in parts.items())])


def _declared() -> Iterator[MetricFamily]:
    """Yield the families of a module: single ones, and those of its tables."""
    for one in vars(exposition).values():
        if isinstance(one, MetricFamily):
            yield one
        elif isinstance(one, dict):
            yield from (value for value in one.values() if isinstance(value, MetricFamily))


def _families(found: Iterable[MetricFamily]) -> Iterator[Row]:
    for one in found:
        yield f"`{one.name}`", "counter" if one.counter else "gauge", _labels(one.labels), one.help


def _own() -> Iterator[Row]:
    own = OwnMetrics()
    labels = {each._name: each._labelnames for each in vars(own).values() if hasattr(each, "_labelnames")}
    for one in own.registry.collect():
        yield _row(one, labels.get(one.name, ("version",) if one.type == "info" else ()))


def _collected(found: Iterable[Metric]) -> Iterator[Row]:
    # A family keeps its labels in this attribute alone, until it has samples.
    return (_row(one, getattr(one, "_labelnames", ())) for one in found)


def _row(one: Metric, labels: Iterable[str]) -> Row:
    end = {"counter": "_total", "info": "_info"}.get(one.type, "")
    return f"`{one.name}{end}`", one.type, _labels(labels), one.documentation


def _labels(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names) or "–"


def _table(rows: Iterable[Row]) -> str:
    return table(("metric", "type", "labels", "meaning"), rows)
