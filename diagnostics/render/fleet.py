"""The fleet for a terminal: each deployment in a line, the worst first, and the workers that do not report.

The fleet is that of the service's `/api/v1/fleet`: names that servers gave are cleaned here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diagnostics.render.plain import clean, fitted
from diagnostics.units import Unit, time_text

Json = dict[str, Any]
Style = Callable[[str, str], str]
_COLOURS = {"critical": "red", "warning": "yellow", "healthy": "green"}


def fleet_gist(fleet: Json) -> object:
    """Return what must change for a reader to be shown the fleet again: states, causes and silent workers."""
    return (
        tuple((one["name"], one["word"], one["tone"], one["check"], one["missed"]) for one in fleet["deployments"]),
        tuple((one["worker"], one["silent"]) for one in fleet["workers"]),
        fleet.get("error", ""),
    )


def fleet_frame(fleet: Json, columns: int, style: Style | None = None) -> list[str]:
    """Return the lines of a screen, each at most `columns` wide; `style` gives a text a colour."""
    paint = style or (lambda text, _: text)
    count, workers = len(fleet["deployments"]), fleet["workers"]
    beside = f" of {len(workers)} workers" if len(workers) > 1 else ""
    lines = [f"{time_text(fleet['now'])}  {count} deployment{'s' * (count != 1)}{beside}"]
    if fleet.get("error"):
        lines.append(paint(fitted(f"not current: {fleet['error']}", columns), "yellow"))
    lines += [paint(fitted(_worker(one), columns), "red") for one in workers if one["silent"]]
    names = [clean(one["name"]) for one in fleet["deployments"]]
    width = min(max(map(len, names), default=0), columns // 3)
    for one, name in zip(fleet["deployments"], names, strict=True):
        text = f"{one['word']:<14} {fitted(name, width):<{width}}  {_standing(one, several=len(workers) > 1)}"
        lines.append(paint(fitted(text.rstrip(), columns), _COLOURS.get(one["tone"], "")))
    return lines


def _worker(one: Json) -> str:
    since = "has never reported" if one["reported"] is None else f"has not reported since {time_text(one['reported'])}"
    count = one["deployments"]
    return f"worker {one['worker']} {since}: nobody watches its {count} deployment{'s' * (count != 1)}"


def _standing(one: Json, *, several: bool) -> str:
    latency = f"{one['statistic']} {Unit.SECONDS.show(one['seconds'])}" if one["seconds"] is not None else ""
    objective = f"objective {one['objective']}{' missed' if one['missed'] else ''}" if one["objective"] else ""
    known = one["check"] and one["word"] != "worker silent"
    cause = f"{one['check']} of {one['about']}" if known else one["headline"]
    parts = (
        latency,
        objective,
        Unit.PER_SECOND.show(one["per_second"]) if one["per_second"] is not None else "",
        cause if cause != one["word"] else "",
        f"since {time_text(one['since'])}" if one["since"] is not None else "",
        f"worker {one['worker']}" if several else "",
    )
    return ", ".join(part for part in parts if part)
