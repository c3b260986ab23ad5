"""From panels to the JSON that Grafana imports: grafanalib makes it, and here it is brought to today's schema.

grafanalib 0.7 writes schema 12: data sources as plain text, panels without ids, keys without a value. Grafana 11 to 13
import the classic schema from 39 on without a migration that guesses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from dashboards.layout import ROW_HEIGHT, DashboardSpec, GridPosition, Panel, PanelKind, PanelSection, Variable, flow
from exporters.sinks.exposition import INCIDENT

SCHEMA_VERSION = 39
# Pages of `diag serve`, where it listens unless told otherwise.
RUNBOOKS = "http://127.0.0.1:9177/runbooks"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_TAGS = ("triton", "diag")
# Keys of old schemas that mean nothing, or something else, to a panel of today.
_OLD = frozenset({"error", "editable", "height", "minSpan", "span", "cacheTimeout", "hideTimeOverride", "columns"})
_OLD |= {"fontSize", "mappings", "color", "maxPerRow", "repeat", "repeatDirection", "target", "step", "metric"}
_OLD |= {"intervalFactor", "query", "hide", "isNew", "maxDataPoints", "sharedCrosshair", "hideControls", "rows"}


def dashboard(board: DashboardSpec, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return the dashboard as Grafana's classic JSON model.

    Args:
        board: what to show.
        runbooks: address below which each runbook is found by its id; can be changed in the dashboard.

    """
    made = core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.description,
        tags=[*_TAGS],
        editable=False,
        refresh="30s",
        time=core.Time("now-1h", "now"),
        timezone="browser",
        schemaVersion=SCHEMA_VERSION,
        templating=core.Templating(list=[]),
        annotations=core.Annotations(list=[]),
        panels=[],
    )
    tree = _plain(made)
    tree["graphTooltip"] = 1
    tree["panels"] = list(_numbered(_panels(board.sections)))
    tree["templating"] = {"list": list(_variables(board, runbooks))}
    tree["annotations"] = {"list": [_incidents()]}
    tree["links"] = [_other_boards()]
    cleaned: dict[str, Any] = _clean(tree)
    return cleaned


def text(board: DashboardSpec, runbooks: str = RUNBOOKS) -> str:
    """Return the same as text, with a line feed at its end."""
    return json.dumps(dashboard(board, runbooks), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _panels(sections: tuple[PanelSection, ...]) -> Iterator[dict[str, Any]]:
    top = 0
    for section in sections:
        yield {"type": "row", "title": section.title, "collapsed": False, "panels": []} | _at(
            GridPosition(0, top, 24, 1)
        )
        top += ROW_HEIGHT
        places = list(flow(section.panels, top))
        for panel, place in places:
            yield _panel(panel) | _at(place)
        top = max(place.y + place.height for _, place in places)


def _numbered(panels: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(panels, 1):
        yield panel | {"id": number}


def _at(place: GridPosition) -> dict[str, Any]:
    return {"gridPos": {"h": place.height, "w": place.width, "x": place.x, "y": place.y}}


def _panel(panel: Panel) -> dict[str, Any]:
    made = _plain(_MAKERS[panel.kind](panel))
    made["datasource"] = _SOURCE
    made["description"] = panel.description
    made["targets"] = [_target(made_of, panel.kind) for made_of in made["targets"]]
    defaults = made["fieldConfig"]["defaults"]
    defaults["unit"] = panel.unit.value
    red = [] if panel.red_from is None else [{"color": "red", "value": panel.red_from}]
    defaults["thresholds"] = {"mode": "absolute", "steps": [{"color": "green", "value": None}, *red]}
    if red:
        defaults["custom"] = {**defaults.get("custom", {}), "thresholdsStyle": {"mode": "dashed"}}
    if panel.opens:
        defaults["links"] = [{"title": title, "url": url, "targetBlank": True} for title, url in panel.opens]
    if panel.runbook:
        made["links"] = [{"title": "Runbook", "url": f"${{runbooks}}/{panel.runbook}", "targetBlank": True}]
    return made


def _target(target: Mapping[str, Any], kind: PanelKind) -> dict[str, Any]:
    kept = {key: target[key] for key in ("expr", "legendFormat", "refId", "format")}
    instant = kind in (PanelKind.TABLE, PanelKind.NUMBER, PanelKind.BARS)
    return kept | {"datasource": _SOURCE, "editorMode": "code", "instant": instant, "range": not instant}


def _targets(panel: Panel, form: str = "time_series") -> list[core.Target]:
    return [
        core.Target(expr=query.expr, legendFormat=query.legend, refId=chr(ord("A") + number), format=form)
        for number, query in enumerate(panel.queries)
    ]


def _lines(panel: Panel) -> core.TimeSeries:
    stacked = panel.kind is PanelKind.STACKED
    return core.TimeSeries(
        title=panel.title,
        targets=_targets(panel),
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        fillOpacity=30 if stacked else 0,
        showPoints="never",
        legendDisplayMode="table",
        legendCalcs=["mean", "max", "lastNotNull"],
        tooltipMode="multi",
        valueMin=panel.least,
        valueMax=panel.most,
        # What may fall below zero is drawn from zero as long as it does not: a part of a percent is no cliff.
        axisSoftMin=0 if panel.least is None else None,
    )


def _number(panel: Panel) -> core.Stat:
    return core.Stat(title=panel.title, targets=_targets(panel), reduceCalc="lastNotNull", graphMode="none")


def _bars(panel: Panel) -> core.BarGauge:
    return core.BarGauge(
        title=panel.title,
        targets=_targets(panel),
        calc="lastNotNull",
        orientation="horizontal",
        min=panel.least,
        max=panel.most,
    )


def _table(panel: Panel) -> core.Table:
    hidden = dict.fromkeys(("Time", "__name__", "job", "instance"), True)
    tidy = {"id": "organize", "options": {"excludeByName": hidden, "indexByName": {}, "renameByName": {}}}
    joined = [{"id": "merge", "options": {}}] if len(panel.queries) > 1 else []
    return core.Table(title=panel.title, targets=_targets(panel, "table"), transformations=[*joined, tidy])


def _states(panel: Panel) -> core.StateTimeline:
    made = core.StateTimeline(title=panel.title, targets=_targets(panel), mergeValues=True, showValue="auto")
    words = {str(number): {"text": word, "color": tint} for number, (word, tint) in (panel.states or {}).items()}
    made.mappings = [{"type": "value", "options": words}]
    return made


_MAKERS = {
    PanelKind.LINES: _lines,
    PanelKind.STACKED: _lines,
    PanelKind.NUMBER: _number,
    PanelKind.TABLE: _table,
    PanelKind.STATES: _states,
    PanelKind.BARS: _bars,
}


def _variables(board: DashboardSpec, runbooks: str) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    job = f"label_values({board.job_of}, job)"
    instance = f'label_values({board.job_of}{{job=~"$job"}}, instance)'
    yield _variable(Variable(name="job", label="Job", query=job))
    yield _variable(Variable(name="instance", label="Instance", query=instance))
    yield from map(_variable, board.variables)
    if any(panel.runbook or panel.opens for panel in board.panels()):
        yield {"name": "runbooks", "label": "Runbooks at", "type": "textbox", "query": runbooks, "hide": 0}


def _variable(variable: Variable) -> dict[str, Any]:
    made = core.Template(
        name=variable.name, label=variable.label, query=variable.query, multi=True, includeAll=True, refresh=2
    )
    chosen = {"selected": True, "text": ["All"], "value": ["$__all"]}
    more = {"datasource": _SOURCE, "allValue": ".+", "current": chosen, "definition": variable.query}
    return _plain(made) | more | {"description": variable.description or None, "regex": ""}


def _incidents() -> dict[str, Any]:
    """Return the annotation that marks when incidents began: the value is the time."""
    return {
        "name": "Incidents",
        "datasource": _SOURCE,
        "enable": True,
        "expr": f'{INCIDENT.name}{{server=~"$instance|"}} * 1000',
        "useValueForTime": "on",
        "titleFormat": "{{check}}",
        "textFormat": "{{deployment}} {{server}} {{ensemble}} {{model}}",
        "tagKeys": "check,deployment",
        "iconColor": "red",
        "step": "60s",
    }


def _other_boards() -> dict[str, Any]:
    more = {"asDropdown": True, "includeVars": True, "keepTime": True, "targetBlank": False}
    return {"type": "dashboards", "title": "Triton", "tags": [*_TAGS], "icon": "external link", "url": ""} | more


def _plain(made: Any) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(json.dumps(made.to_json_data(), cls=DashboardEncoder))
    return tree


def _clean(tree: Any) -> Any:
    """Return the tree without keys of old schemas and without keys that hold nothing."""
    if isinstance(tree, Mapping):
        return {
            key: _clean(value)
            for key, value in tree.items()
            if not (key in _OLD and not _is_kept(tree, key)) and (value is not None or key == "value")
        }
    return [_clean(item) for item in tree] if isinstance(tree, list) else tree


def _is_kept(tree: Mapping[str, Any], key: str) -> bool:
    """Return whether a key means something here although it is an old panel's elsewhere."""
    inside_a_field = key in ("color", "mappings") and "type" not in tree
    of_a_variable = key in ("query", "hide") and "label" in tree
    of_the_board = key == "editable" and "schemaVersion" in tree
    return inside_a_field or of_a_variable or of_the_board
