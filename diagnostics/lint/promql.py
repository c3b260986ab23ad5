"""PromQL as a tree of plain nodes, read by `promql-parser`; a dashboard's variables are given a value to read by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from itertools import product
from math import inf, isnan
from types import ModuleType
from typing import Any

from diagnostics import names
from diagnostics.lint.metrics import (
    COUNTERS,
    ENGINE_LABELS,
    GAUGES,
    OF_HOST,
    PREFIX,
    SHARES,
    is_counter,
    of_gpu,
    of_model,
)

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
        shifted: whether a selector reads another time than the query's (`offset`, `@`).
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
    shifted: bool = False
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
    shifted = tree.offset is not None or tree.at is not None
    return PromqlNode(
        kind=NodeKind.SELECTOR, name=name, matchers=matchers, equals=equals, range_seconds=seconds, shifted=shifted
    )


@cache
def _library() -> ModuleType | None:
    try:
        import promql_parser
    except ModuleNotFoundError:
        return None
    return promql_parser


_TARGET = frozenset({"job", "instance"})
_OWN = frozenset({names.MODEL, names.VERSION, names.REASON, names.GPU_UUID})
# Set operations and arithmetic match operands by labels; of an `or`, either side may be empty.
_MATCHING = frozenset({"+", "-", "*", "/", "%", "^", ">", ">=", "<", "<=", "==", "!=", "and"})
_KEPT = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_CHANGING = frozenset({"label_replace", "label_join"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels that all series have, and whether one that is not among them may be there.

    Attributes:
        sure: labels that every series has.
        lacking: labels that none has; None where none has any label but those of `allowed`.
        allowed: labels that there may be, where only these may.

    """

    sure: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None

    def cannot_have(self, label: str) -> bool:
        """Return whether no series has the label."""
        return label in self.lacking or (self.allowed is not None and label not in self.allowed)


UNKNOWN = Labels()


def labels(node: PromqlNode) -> Labels:
    """Return what is known of the labels of an expression's series."""
    match node.kind:
        case NodeKind.SELECTOR:
            return _of_metric(node)
        case NodeKind.CALL:
            return _of_call(node)
        case NodeKind.AGGREGATE:
            return _of_aggregate(node)
        case NodeKind.BINARY:
            return _of_operator(node)
    return UNKNOWN


def unmatched(node: PromqlNode) -> str:
    """Return a label by which no series of one operand matches any of the other; empty when they may match."""
    if node.kind is not NodeKind.BINARY or node.name not in _MATCHING or len(node.children) != 2:
        return ""
    if any(_is_scalar(child) for child in node.children):
        return ""
    one, other = (labels(child) for child in node.children)
    for mine, theirs in ((one, other), (other, one)):
        for label in sorted(mine.sure - node.without):
            if (node.on is None or label in node.on) and theirs.cannot_have(label):
                return label
    return ""


def _is_scalar(node: PromqlNode) -> bool:
    scalar = node.kind is NodeKind.CALL and node.name in ("scalar", "time", "pi")
    arithmetic = node.kind is NodeKind.BINARY and all(_is_scalar(child) for child in node.children)
    return node.kind is NodeKind.NUMBER or scalar or arithmetic


def _of_metric(node: PromqlNode) -> Labels:
    own = _own(node.name)
    if own is None:
        return UNKNOWN
    possible = own | ({names.GPU_UUID} if of_model(node.name) else frozenset())
    return Labels(sure=own | _TARGET, lacking=_OWN - possible)


def _own(metric: str) -> frozenset[str] | None:
    """Return the labels that Triton gives a family; None of one that is not known."""
    if metric == names.REQUEST_FAILURE:  # before 24.07 it had no reason, and whoever sums over it needs none
        return frozenset({names.MODEL, names.VERSION, names.REASON})
    if metric in ENGINE_LABELS:
        return frozenset({names.MODEL, names.VERSION, ENGINE_LABELS[metric]})
    if of_model(metric):
        return frozenset({names.MODEL, names.VERSION})
    if of_gpu(metric):
        return frozenset({names.GPU_UUID})
    return frozenset() if metric in OF_HOST else None


def _of_call(node: PromqlNode) -> Labels:
    inside = [child for child in node.children if child.kind is not NodeKind.NUMBER]
    if node.name in _CHANGING or node.name.startswith("absent") or not inside:
        return UNKNOWN
    found = labels(inside[0])
    if node.name == "histogram_quantile":
        return Labels(sure=found.sure - {"le"}, lacking=found.lacking, allowed=found.allowed)
    return found


def _of_aggregate(node: PromqlNode) -> Labels:
    inside = labels(node.children[-1]) if node.children else UNKNOWN
    if node.name in _KEPT:
        return inside
    if node.name == "count_values":
        return UNKNOWN
    if node.by is None:
        allowed = None if inside.allowed is None else inside.allowed - node.without
        return Labels(sure=inside.sure - node.without, lacking=inside.lacking | node.without, allowed=allowed)
    return Labels(sure=inside.sure & node.by, lacking=inside.lacking, allowed=node.by)


def _of_operator(node: PromqlNode) -> Labels:
    one, other = (labels(child) for child in node.children)
    if _is_scalar(node.children[0]):
        return other
    if _is_scalar(node.children[1]) or node.name in ("and", "unless"):
        return one
    if node.name == "or" or node.grouped:
        return UNKNOWN
    if node.on is not None:
        return Labels(sure=(one.sure | other.sure) & node.on, lacking=one.lacking & other.lacking, allowed=node.on)
    both = one.sure | other.sure if not node.without else one.sure & other.sure
    return Labels(sure=both - node.without, lacking=(one.lacking & other.lacking) | node.without)


Range = tuple[float, float]
ANY: Range = (-inf, inf)
SHARE: Range = (0.0, 1.0)
NOT_NEGATIVE: Range = (0.0, inf)
COMPARISONS = frozenset({">", ">=", "<", "<=", "==", "!="})

_FRACTION = "fraction"
# Of these the result lies within the range of the argument.
_WITHIN = frozenset(
    {"avg_over_time", "max_over_time", "min_over_time", "last_over_time", "quantile_over_time", "scalar", "vector"}
    | {"sort", "sort_desc", "label_replace", "label_join"}
)
_AGGREGATES_WITHIN = frozenset({"avg", "min", "max", "quantile", "topk", "bottomk"})
_NEVER_NEGATIVE = OVER_TIME | {"count_over_time", "changes", "resets", "abs", "time", "timestamp"}
_ABSENT = frozenset({"absent", "absent_over_time"})


def values(node: PromqlNode) -> Range:
    """Return the range of an expression's values."""
    match node.kind:
        case NodeKind.NUMBER:
            return ANY if isnan(node.value) else (node.value, node.value)
        case NodeKind.SELECTOR:
            return _range_of_metric(node)
        case NodeKind.CALL:
            return _range_of_call(node)
        case NodeKind.AGGREGATE:
            return _range_of_aggregate(node)
        case NodeKind.BINARY:
            return _range_of_operator(node)
    return ANY


def never(node: PromqlNode) -> bool:
    """Return whether a comparison is false for every value that its operands can have; False for other nodes."""
    if node.kind is not NodeKind.BINARY or node.name not in COMPARISONS:
        return False
    (low, high), (other_low, other_high) = (values(child) for child in node.children)
    impossible: Mapping[str, bool] = {
        ">": high <= other_low,
        ">=": high < other_low,
        "<": low >= other_high,
        "<=": low > other_high,
        "==": high < other_low or low > other_high,
        "!=": low == high == other_low == other_high,
    }
    return impossible[node.name]


def _range_of_metric(node: PromqlNode) -> Range:
    fraction = node.name == names.ENGINE_KV and node.equals.get(names.ENGINE_KV_TYPE) == _FRACTION
    if node.name in SHARES or fraction:
        return SHARE
    known = node.name in COUNTERS | GAUGES or is_counter(node.name) or node.name.startswith(PREFIX)
    return NOT_NEGATIVE if known else ANY


def _range_of_call(node: PromqlNode) -> Range:
    if node.name in _ABSENT:
        return (1.0, 1.0)
    if node.name in _NEVER_NEGATIVE:
        return NOT_NEGATIVE
    arguments = [child for child in node.children if child.kind is not NodeKind.NUMBER] or list(node.children)
    within = node.name in _WITHIN and arguments
    if within:
        return values(arguments[0])
    least = values(arguments[0])[0] if node.name in ("sum_over_time", "histogram_quantile") and arguments else -inf
    return NOT_NEGATIVE if least >= 0 else ANY


def _range_of_aggregate(node: PromqlNode) -> Range:
    if node.name == "group":
        return (1.0, 1.0)
    if node.name == "count":
        return (1.0, inf)
    low, high = values(node.children[-1]) if node.children else ANY
    if node.name in _AGGREGATES_WITHIN:
        return low, high
    if node.name in ("stddev", "stdvar") or (node.name == "sum" and low >= 0):
        return NOT_NEGATIVE
    return ANY


def _range_of_operator(node: PromqlNode) -> Range:
    one, other = (values(child) for child in node.children)
    if node.name in COMPARISONS:
        return SHARE if node.returns_bool else one
    if node.name in ("and", "unless"):
        return one
    if node.name == "or":
        return min(one[0], other[0]), max(one[1], other[1])
    combine = _COMBINE.get(node.name)
    return combine(one, other) if combine else ANY


def _sum(one: Range, other: Range) -> Range:
    return one[0] + other[0], one[1] + other[1]


def _difference(one: Range, other: Range) -> Range:
    return one[0] - other[1], one[1] - other[0]


def _product(one: Range, other: Range) -> Range:
    ends = [0.0 if 0.0 in (a, b) else a * b for a, b in product(one, other)]
    return min(ends), max(ends)


def _quotient(one: Range, other: Range) -> Range:
    if other[0] == other[1] != 0.0:
        return _product(one, (1.0 / other[0], 1.0 / other[0]))
    return NOT_NEGATIVE if one[0] >= 0 and other[0] >= 0 else ANY


_COMBINE: Mapping[str, Callable[[Range, Range], Range]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
}
