"""PromQL as a text: on one line, without comments, and with brackets and quotes that close.

Only a store can decide whether a query means something; what never can is reported with its line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics import names
from diagnostics.lint.promql import NodeKind, PromqlNode, parsed
from diagnostics.slo.fields import YamlFields
from diagnostics.slo.slo import WINDOW, Promise, Promql, Triton

_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<space>(?:\s|#[^\n]*)+)|(?P<sign>[()\[\]{{}}\"'`])|[^()\[\]{{}}\"'`\s#]+"
)
_QUOTES = "\"'`"
_CLOSES = {")": "(", "]": "[", "}": "{"}
_BINARY = frozenset("+-*/%^") | {"and", "or", "unless", "==", "!=", ">", "<", ">=", "<=", "atan2"}


def promql(fields: YamlFields, key: str) -> str:
    """Return the query below a key on one line, without comments.

    Raises:
        UsageError: it is not there, or no store could read it.

    """
    text = fields.text(key)
    fault = fault_in(text)
    if fault:
        raise fields.wrong(f"{key} is no PromQL: {fault}", "mend the query", key)
    return "".join(_plain(text)).strip()


def fault_in(query: str) -> str:
    """Return what makes a query unreadable for any store: brackets, quotes, or an operator that nothing follows.

    Empty where nothing of this is wrong, which does not say that a store can read it.
    """
    opened, last = list[str](), ""
    for found in _TOKEN.finditer(query):
        token = found[0]
        if found["space"]:
            continue
        if found["sign"] and token in _QUOTES:
            return f"a quote {token} is not closed"
        if found["sign"] and token in _CLOSES.values():
            opened.append(token)
        elif found["sign"] and (not opened or opened.pop() != _CLOSES[token]):
            return f"a {token!r} closes nothing"
        last = token
    if opened:
        return f"a {opened[-1]!r} is not closed"
    return f"nothing follows {last!r}" if last.lower() in _BINARY else "" if last else "it is empty"


def _plain(query: str) -> Iterator[str]:
    for found in _TOKEN.finditer(query):
        yield " " if found["space"] else found[0]


_PLACEHOLDER = re.compile(r"\{\{\s*\.?(?:window|Window)\s*\}\}|\$\{?window\}?")
_RANGE = re.compile(r"\[\s*(?:\d+(?:ms|[smhdwy]))+\s*\]")
_MILLISECOND = 1e-3


@dataclass(frozen=True, slots=True)
class _Series:
    """What one counter's increase is asked for."""

    name: str
    labels: tuple[tuple[str, str], ...]

    @property
    def model(self) -> str | None:
        """The model, where nothing else is asked of the series than what `le` and `reason` say."""
        labels = dict(self.labels)
        return labels.get(names.MODEL) if labels.keys() <= {names.MODEL, "le"} else None

    @property
    def bound(self) -> str | None:
        """The bucket's upper bound, as written."""
        return dict(self.labels).get("le")


def with_window(query: str, *, counter: bool = False) -> str | None:
    """Return a query with `WINDOW` for its range; None where it has none and is not a counter's bare name.

    Args:
        query: PromQL with a placeholder (`{{.window}}`), with a fixed range, or a selector.
        counter: whether a bare selector stands for a counter's increase.

    """
    text = query.strip()
    if _PLACEHOLDER.search(text):
        return _PLACEHOLDER.sub(lambda _: WINDOW, text)
    if _RANGE.search(text):
        return _RANGE.sub(f"[{WINDOW}]", text)
    node = parsed(text) if counter else None
    bare = node is not None and node.kind is NodeKind.SELECTOR and node.name and not node.shifted
    return f"sum(increase({text}[{WINDOW}]))" if bare else None


def understood(queries: Promql) -> Triton | Promql:
    """Return what the queries ask in our terms, else themselves."""
    total = _added(queries.total)
    part = _added(queries.good or queries.bad or "")
    if total is None or part is None or len(part) != 1:
        return queries
    return _availability(queries, total, part[0]) or _first_response(queries, total, part[0]) or queries


def _availability(queries: Promql, total: list[_Series], part: _Series) -> Triton | None:
    wanted = names.REQUEST_SUCCESS if queries.good else names.REQUEST_FAILURE
    named = sorted(one.name for one in total)
    models = {one.model for one in (*total, part)}
    if part.name != wanted or named != sorted((names.REQUEST_SUCCESS, names.REQUEST_FAILURE)) or len(models) != 1:
        return None
    model = models.pop()
    return Triton(promise=Promise.AVAILABILITY, model=model) if model else None


def _first_response(queries: Promql, total: list[_Series], part: _Series) -> Triton | None:
    if not queries.good or len(total) != 1 or part.name != f"{names.FIRST_RESPONSE}_bucket":
        return None
    if total[0].name != f"{names.FIRST_RESPONSE}_count" or total[0].model != part.model or not part.model:
        return None
    try:
        seconds = float(part.bound or "") * _MILLISECOND
    except ValueError:
        return None
    return Triton(promise=Promise.FIRST_TOKEN, model=part.model, seconds=seconds)


def threshold(query: str, value: float) -> Triton | None:
    """Return the promise that a model's time, as Triton names it, stays below a value; None where it is none.

    Args:
        query: a selector of one of Triton's families of request times, or its increase.
        value: in the family's own unit.

    """
    node = parsed(query)
    one = (_series(node) if node.kind is NodeKind.SELECTOR else _counted(node)) if node is not None else None
    if one is None or not one.model:
        return None
    if one.name in (names.REQUEST_DURATION, names.REQUEST_SUMMARY):
        return Triton(promise=Promise.LATENCY, model=one.model, seconds=value * 1e-6)
    if one.name == names.FIRST_RESPONSE:
        return Triton(promise=Promise.FIRST_TOKEN, model=one.model, seconds=value * _MILLISECOND)
    return None


def _added(query: str) -> list[_Series] | None:
    """Return the counters whose increases a query adds up; None where it does something else."""
    node = parsed(query)
    found = list(map(_counted, _terms(node))) if node is not None else []
    series = [one for one in found if one is not None]
    return series if found and len(series) == len(found) else None


def _terms(node: PromqlNode) -> Iterator[PromqlNode]:
    """Yield what is added at the top of a query."""
    if node.kind is NodeKind.BINARY and node.name == "+" and node.on is None and not node.without:
        for child in node.children:
            yield from _terms(child)
    else:
        yield node


def _counted(node: PromqlNode) -> _Series | None:
    """Return the counter whose rate or increase a query is, summed or not."""
    if node.kind is NodeKind.AGGREGATE and node.name == "sum":
        node = node.children[-1]
    if node.kind is not NodeKind.CALL or node.name not in ("rate", "increase"):
        return None
    return _series(node.children[0])


def _series(node: PromqlNode) -> _Series | None:
    if node.kind is not NodeKind.SELECTOR or not node.name or node.shifted or node.matchers != node.equals:
        return None
    return _Series(node.name, tuple(sorted(node.equals.items())))
