"""Objectives: what is left of their budgets, how fast they burn, and which causes took them."""

from __future__ import annotations

from dashboards.layout import DashboardSpec, Format, Panel, PanelKind, PanelQuery, PanelSection, Variable, scraped
from exporters.sinks.exposition import ATTRIBUTED, BAD, BAD_HIGH, BAD_LOW, BURN, EVENTS, LEFT, OBJECTIVE

_SLO = 'slo=~"$slo"'
_BY = "{{slo}}"


def _grown(counter: str, window: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (increase({scraped(f'{counter}_total', _SLO)}[{window}]))"


def _share(counter: str, window: str) -> str:
    return f"{_grown(counter, window, 'slo')} / ({_grown(EVENTS, window, 'slo')} > 0)"


_BUDGET = PanelSection(
    title="Budget",
    panels=(
        Panel(
            title="Objective",
            description="Share of requests that must be good.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=scraped(OBJECTIVE, _SLO), legend=_BY),),
            kind=PanelKind.NUMBER,
            width=6,
        ),
        Panel(
            title="Budget left",
            description="Share of the period's budget that is left, from the service's history. Below 0: overspent.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=scraped(LEFT, _SLO), legend=_BY),),
            width=9,
            least=None,
            most=1,
        ),
        Panel(
            title="Burn rate",
            description="How many times faster than allowed the budget burns, by window. At 14.4 an hour takes 2 % of "
            "a month's budget.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=scraped(BURN, _SLO), legend=f"{_BY} {{{{window}}}}"),),
            width=9,
        ),
    ),
)
_ATTRIBUTION = PanelSection(
    title="What takes the budget",
    panels=(
        Panel(
            title="Bad requests by cause, in the chosen time",
            description="Requests that broke the promise, by the root cause that took them. Causes exclude each other, "
            "so that they add up to at most all; the rest is unexplained.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(
                    expr=f"sort_desc({_grown(ATTRIBUTED, '$__range', 'slo', 'check', 'server', 'model')} > 0)",
                    legend="{{slo}} {{check}} {{server}} {{model}}",
                ),
            ),
            kind=PanelKind.BARS,
            width=14,
        ),
        Panel(
            title="Share of bad requests that is explained",
            description="What of the bad requests some cause took, in the chosen time.",
            unit=Format.SHARE,
            queries=(
                PanelQuery(
                    expr=f"{_grown(ATTRIBUTED, '$__range', 'slo')} / ({_grown(BAD, '$__range', 'slo')} > 0)",
                    legend=_BY,
                ),
            ),
            kind=PanelKind.NUMBER,
            width=10,
        ),
    ),
)
_EVENTS = PanelSection(
    title="Requests",
    panels=(
        Panel(
            title="Share of bad requests",
            description="Over the interval of a point; where only averages are known these are bounds: at least, and "
            "at most, so many.",
            unit=Format.SHARE,
            queries=(
                PanelQuery(expr=_share(BAD, "$__rate_interval"), legend=f"{_BY}"),
                PanelQuery(expr=_share(BAD_LOW, "$__rate_interval"), legend=f"{_BY} at least"),
                PanelQuery(expr=_share(BAD_HIGH, "$__rate_interval"), legend=f"{_BY} at most"),
            ),
            most=1,
        ),
        Panel(
            title="Requests that count",
            description="Requests that an objective is about, over the interval of a point. Of few, a single bad one "
            "is a large share: alerts wait for enough.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(expr=_grown(EVENTS, "$__rate_interval", "slo", "server"), legend=f"{_BY} {{{{server}}}}"),
            ),
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-slo",
    title="Triton / Objectives",
    description="Budgets, burn rates, and the causes that took the budget.",
    job_of=f"{EVENTS}_total",
    sections=(_BUDGET, _ATTRIBUTION, _EVENTS),
    variables=(Variable(name="slo", label="Objective", query=f"label_values({scraped(f'{EVENTS}_total')}, slo)"),),
)
