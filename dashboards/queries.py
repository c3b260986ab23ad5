"""PromQL from names: every selector is bound to the dashboard's variables, and a mean is a ratio of sums of rates.

Triton's own series carry `job` and `instance` of Triton's scrape. The diagnosis service exports about other processes,
so its series name the Triton by `server`, which equals that `instance`; its own `instance` is the service's.
"""

from __future__ import annotations

from dashboards.layout import Variable
from diagnostics import names
from diagnostics.signals.signal import Signal
from exporters.sinks.exposition import DERIVED

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
