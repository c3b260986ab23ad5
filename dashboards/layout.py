"""What a dashboard is made of, before Grafana: panels with their queries, in sections that flow from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics import names
from diagnostics.signals.signal import Signal
from exporters.sinks.exposition import DERIVED

COLUMNS = 24
ROW_HEIGHT = 1


class PanelKind(StrEnum):
    """How a panel draws."""

    LINES = "lines"
    STACKED = "stacked"
    NUMBER = "number"
    TABLE = "table"
    STATES = "states"
    BARS = "bars"


class Format(StrEnum):
    """Grafana's names of units."""

    SECONDS = "s"
    SHARE = "percentunit"
    BYTES = "bytes"
    PER_SECOND = "reqps"
    EVENTS_PER_SECOND = "cps"
    COUNT = "short"
    WATTS = "watt"
    INSTANT = "dateTimeAsIso"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    """PromQL, and what its series are called: a template of labels."""

    expr: str
    legend: str = ""


# Runbooks are a page of the service, beside which the others are.
SERVICE = "${runbooks}/.."


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title, description: what is shown, and how to read it.
        unit: of every value.
        queries: at least one.
        kind: how it draws.
        width, height: in Grafana's grid of 24 columns.
        least, most: the ends of the axis, where the quantity has them; without a least it begins at zero or below.
        runbook: id of the runbook that it leads to; a check's, or that of an alert.
        states: what numbers mean, for states: number to (word, colour).
        red_from: the value from which it is drawn red; None where no value is bad by itself.
        opens: what a row leads to: titles and addresses, with fields as `${__data.fields.deployment}`. Pages of the
            diagnosis service are at `SERVICE`, runbooks at `${runbooks}`.

    """

    title: str
    description: str
    unit: Format
    queries: tuple[PanelQuery, ...]
    kind: PanelKind = PanelKind.LINES
    width: int = 12
    height: int = 8
    least: int | None = 0
    most: int | None = None
    runbook: str | None = None
    states: Mapping[int, tuple[str, str]] | None = None
    red_from: float | None = None
    opens: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSection:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable beyond data source, job and instance: values of a label, several at once."""

    name: str
    label: str
    query: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSpec:
    """One dashboard.

    Attributes:
        uid: stable, part of its address.
        title, description: as listed in Grafana.
        job_of: a metric whose `job` and `instance` are offered as variables.
        sections: from top to bottom.
        variables: beyond data source, job and instance.

    """

    uid: str
    title: str
    description: str
    job_of: str
    sections: tuple[PanelSection, ...]
    variables: tuple[Variable, ...] = ()

    def panels(self) -> Iterator[Panel]:
        """Yield every panel."""
        for section in self.sections:
            yield from section.panels


@dataclass(frozen=True, slots=True)
class GridPosition:
    """Where something is in the grid."""

    x: int
    y: int
    width: int
    height: int


def flow(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, GridPosition]]:
    """Yield each panel with its place: side by side while they fit, then below the tallest of the line."""
    x = y = tallest = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        yield panel, GridPosition(x, top + y, panel.width, panel.height)
        x, tallest = x + panel.width, max(tallest, panel.height)


MICROSECONDS = 1e-6
SCRAPED = ('job=~"$job"', 'instance=~"$instance"')
MODEL = f'{names.MODEL}=~"$model"'
SERVER = 'server=~"$instance"'
# Two deployments may call a server the same: it goes by both names.
SERVER_LEGEND = "{{server}} {{deployment}}"


def scraped(metric: str, *matchers: str) -> str:
    """Return a selector of what Triton, or another scraped exporter, says."""
    return f"{metric}{{{', '.join((*SCRAPED, *matchers))}}}"


def diagnosed(metric: str, *matchers: str) -> str:
    """Return a selector of what the diagnosis service says of a server."""
    return f"{metric}{{{', '.join((SERVER, *matchers))}}}"


def diagnosed_model(metric: str, *matchers: str) -> str:
    """Return a selector of what the diagnosis service says of models."""
    return diagnosed(metric, MODEL, *matchers)


def exported(signal: Signal) -> str:
    """Return the metric as which the diagnosis service exports a signal."""
    return DERIVED[signal.name][1].name


def rate(selector: str) -> str:
    """Return the increase per second over Grafana's interval, which spans at least four scrapes."""
    return f"rate({selector}[$__rate_interval])"


def increase(selector: str) -> str:
    """Return the increase over Grafana's interval."""
    return f"increase({selector}[$__rate_interval])"


def total(expression: str, *by: str) -> str:
    """Return the sum, by labels where some are given."""
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def largest(expression: str, *by: str) -> str:
    """Return the largest, by labels."""
    return f"max by ({', '.join(by)}) ({expression})"


def ratio(part: str, whole: str, scale: float = 1.0) -> str:
    """Return part ÷ whole; no value while nothing happens, instead of a number that is none."""
    above = f"{scale:g} * {part}" if scale != 1.0 else part
    return f"{above} / ({whole} > 0)"


def model_rate(metric: str, *by: str) -> str:
    """Return a model counter's sum of rates."""
    return total(rate(scraped(metric, MODEL)), *by)


def mean_seconds(duration: str, *by: str) -> str:
    """Return the mean seconds per request of one of Triton's duration counters (microseconds), by labels.

    Sums of rates are divided, so that replicas count by their traffic; a mean of means would not.
    """
    return ratio(model_rate(duration, *by), model_rate(names.REQUEST_SUCCESS, *by), MICROSECONDS)


MODEL_VARIABLE = Variable(
    name="model",
    label="Model",
    query=f"label_values({scraped(names.REQUEST_SUCCESS)}, {names.MODEL})",
    description="An ensemble's own row repeats the compute of its members: choose one or the others.",
)
