"""PromQL in deployment files: expressions of Prometheus' rules and of Grafana's panels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from diagnostics.lint.deployment_files import inner
from diagnostics.lint.problem import SourceLocation, TextFile


class Use(StrEnum):
    """What an expression is for."""

    ALERT = "alert"
    RECORDING = "recording"
    PANEL = "panel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One expression.

    Attributes:
        expr: as Prometheus would get it; a dashboard's variables (`$job`, `${job}`, `[[job]]`) are still in it.
        place: where it begins in its file; the file's beginning when it is written in another form there.
        name: of the alert or the recorded metric, or the title of the panel.
        unit: Grafana's id of the panel's unit, as in `s`; empty when none is set, and for rules.

    """

    expr: str
    place: SourceLocation
    use: Use
    name: str = ""
    unit: str = ""


def queries_of(file: TextFile, documents: tuple[Any, ...]) -> Iterator[Expression]:
    """Yield the queries of a file in order, none of a file that is neither rules nor a dashboard."""
    at = 0
    for use, written, name, unit in _written(documents):
        found = _offset(file.text, written, at)
        at = found if found >= 0 else at
        yield Expression(expr=written, place=file.place(max(found, 0)), use=use, name=name, unit=unit)


def _written(documents: tuple[Any, ...]) -> Iterator[tuple[Use, str, str, str]]:
    for value in inner(documents):
        if not isinstance(value, dict):
            continue
        expr = value.get("expr")
        if isinstance(expr, str) and isinstance(value.get("alert"), str):
            yield Use.ALERT, expr, value["alert"], ""
        elif isinstance(expr, str) and isinstance(value.get("record"), str):
            yield Use.RECORDING, expr, value["record"], ""
        elif isinstance(value.get("targets"), list):
            yield from _panel(value)


def _panel(panel: dict[str, Any]) -> Iterator[tuple[Use, str, str, str]]:
    for target in panel["targets"]:
        expr = target.get("expr") if isinstance(target, dict) else None
        if isinstance(expr, str) and expr.strip():
            yield Use.PANEL, expr, _text(panel.get("title")), _text(_at(panel, "fieldConfig", "defaults", "unit"))


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _offset(text: str, expr: str, after: int) -> int:
    """Return where an expression is written: in JSON with escapes, in YAML perhaps over several lines; else -1."""
    first = expr.strip().split("\n")[0].strip()
    for form in (json.dumps(expr)[1:-1], json.dumps(expr, ensure_ascii=False)[1:-1], first):
        found = text.find(form, after)
        if found >= 0:
            return found
    return -1
