"""PromQL as a tree of plain nodes, read by `promql-parser`; a dashboard's variables are given a value to read by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

_RANGE_VARIABLE = re.compile(r"(?<=\[)\s*(?:\$\w+|\$\{[^{}]*\}|\[\[\w+\]\])|(?<=:)\s*(?:\$\w+|\$\{[^{}]*\})(?=\s*\])")
# One that nothing closes goes to the end.
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?|\'(?:[^\'\\]|\\.?)*+\'?|`[^`]*`?')
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_VARIABLE = re.compile(r"\$\w+|\$\{[^{}]*\}|\[\[\w+\]\]")
VARIABLE_RANGE_SECONDS = 300.0
"""The range that stands for a variable one, such as `$__rate_interval`: a usual one."""
MAX_CHARACTERS = 8192
"""The longest expression that is read: people's have a few hundred characters, and time grows with the square."""
OVER_TIME = frozenset({"rate", "irate", "increase"})
"""Functions that make a counter comparable between scrapes."""


class NodeKind(StrEnum):
    """What a node is."""

    CALL = "call"
    AGGREGATE = "aggregate"
    BINARY = "binary"
    SELECTOR = "selector"
    NUMBER = "number"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class PromqlNode:
    """A part of an expression, without parentheses.

    Attributes:
        name: of the function, aggregation, operator or metric; empty where there is none.
        children: operands or arguments, in order.
        matchers: values by label, of a selector.
        equals: those of `=` alone.
        range_seconds: of a selector with a range; else 0.
        by: labels that an aggregation keeps, None when it keeps all but those of `without`.
        without: labels that an aggregation drops, or that two operands are matched without.
        on: labels that two operands are matched by; None for all of theirs.
        grouped: whether labels of the one side are added to the many (`group_left`, `group_right`).
        returns_bool: whether a comparison gives 0 and 1 instead of dropping series.
        value: of a number.

    """

    kind: NodeKind
    name: str = ""
    children: tuple[PromqlNode, ...] = ()
    matchers: Mapping[str, str] = field(default_factory=dict)
    equals: Mapping[str, str] = field(default_factory=dict)
    range_seconds: float = 0.0
    by: frozenset[str] | None = frozenset()
    without: frozenset[str] = frozenset()
    on: frozenset[str] | None = None
    grouped: bool = False
    returns_bool: bool = False
    value: float = 0.0

    def walk(self, above: tuple[PromqlNode, ...] = ()) -> Iterator[tuple[PromqlNode, tuple[PromqlNode, ...]]]:
        """Yield each node within, outer ones first, with those around it, outermost first."""
        yield self, above
        for child in self.children:
            yield from child.walk((*above, self))

    def selectors(self) -> Iterator[PromqlNode]:
        """Yield the selectors within, in order."""
        yield from (node for node, _ in self.walk() if node.kind is NodeKind.SELECTOR)

    @property
    def over_time(self) -> bool:
        """Return whether it holds a rate or an increase."""
        return any(node.kind is NodeKind.CALL and node.name in OVER_TIME for node, _ in self.walk())


def available() -> bool:
    """Return whether PromQL can be read: whether `promql-parser` is installed."""
    return _library() is not None


def readable(expr: str) -> bool:
    """Return whether an expression is short enough to be read."""
    return len(expr) <= MAX_CHARACTERS


@lru_cache(maxsize=256)
def parsed(expr: str) -> PromqlNode | None:
    """Return an expression as a tree; None when it is not PromQL, too long, or cannot be read here."""
    library = _library() if readable(expr) else None
    for stand_in in ("1", "variable") if library else ():
        try:
            return _node(library.parse(_without_variables(expr, stand_in))) if library else None
        except (ValueError, RecursionError):
            continue
    return None


def _without_variables(expr: str, stand_in: str) -> str:
    text = _RANGE_VARIABLE.sub(f"{VARIABLE_RANGE_SECONDS:.0f}s", expr)
    text = _LABELS.sub(lambda labels: _VARIABLE.sub("variable", labels[0]), text)
    parts, at = [], 0
    for string in _STRING.finditer(text):
        parts += [_VARIABLE.sub(stand_in, text[at : string.start()]), string[0]]
        at = string.end()
    return "".join([*parts, _VARIABLE.sub(stand_in, text[at:])])


def _node(tree: Any) -> PromqlNode:
    match type(tree).__name__:
        case "ParenExpr":
            return _node(tree.expr)
        case "BinaryExpr":
            return _binary(tree)
        case "AggregateExpr":
            return _aggregate(tree)
        case "Call":
            return PromqlNode(kind=NodeKind.CALL, name=tree.func.name, children=tuple(_node(one) for one in tree.args))
        case "VectorSelector":
            return _selector(tree, 0.0)
        case "MatrixSelector":
            return _selector(tree.vector_selector, tree.range.total_seconds())
        case "NumberLiteral":
            return PromqlNode(kind=NodeKind.NUMBER, value=tree.val)
        case "SubqueryExpr" | "UnaryExpr":
            return PromqlNode(kind=NodeKind.OTHER, children=(_node(tree.expr),))
    return PromqlNode(kind=NodeKind.OTHER)


def _binary(tree: Any) -> PromqlNode:
    modifier = tree.modifier
    matching = modifier.matching if modifier else None
    labels = frozenset(matching.labels) if matching else frozenset[str]()
    included = matching is not None and str(matching.type).endswith("Include")
    return PromqlNode(
        kind=NodeKind.BINARY,
        name=str(tree.op),
        children=(_node(tree.lhs), _node(tree.rhs)),
        on=labels if included else None,
        without=frozenset() if included else labels,
        grouped=bool(modifier and modifier.group_labels is not None and "ToOne" in str(modifier.card))
        or bool(modifier and "OneToMany" in str(modifier.card)),
        returns_bool=bool(modifier and modifier.return_bool),
    )


def _aggregate(tree: Any) -> PromqlNode:
    children = tuple(_node(one) for one in (tree.param, tree.expr) if one is not None)
    modifier = tree.modifier
    by: frozenset[str] | None = frozenset(modifier.labels) if modifier else frozenset()
    dropped = by if modifier and str(modifier.type).endswith(("Without", "Exclude")) else None
    return PromqlNode(
        kind=NodeKind.AGGREGATE,
        name=str(tree.op),
        children=children,
        by=by if dropped is None else None,
        without=dropped or frozenset(),
    )


def _selector(tree: Any, seconds: float) -> PromqlNode:
    matchers = {one.name: one.value for one in tree.matchers.matchers}
    equals = {one.name: one.value for one in tree.matchers.matchers if str(one.op).endswith(".Equal")}
    name = tree.name or equals.get("__name__", "")
    return PromqlNode(kind=NodeKind.SELECTOR, name=name, matchers=matchers, equals=equals, range_seconds=seconds)


@cache
def _library() -> ModuleType | None:
    try:
        import promql_parser
    except ModuleNotFoundError:
        return None
    return promql_parser
