"""What values an expression can have: the ranges of Triton's metrics, carried through PromQL's functions.

A range is (lowest, highest), both included, infinite where nothing bounds it. It is of the series that there are: an
expression without series has no value at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import inf, isnan

from diagnostics import names
from diagnostics.lint.metrics import COUNTERS, GAUGES, PREFIX, SHARES, is_counter
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode

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
            return _of_metric(node)
        case NodeKind.CALL:
            return _of_call(node)
        case NodeKind.AGGREGATE:
            return _of_aggregate(node)
        case NodeKind.BINARY:
            return _of_operator(node)
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


def _of_metric(node: PromqlNode) -> Range:
    fraction = node.name == names.ENGINE_KV and node.equals.get(names.ENGINE_KV_TYPE) == _FRACTION
    if node.name in SHARES or fraction:
        return SHARE
    known = node.name in COUNTERS | GAUGES or is_counter(node.name) or node.name.startswith(PREFIX)
    return NOT_NEGATIVE if known else ANY


def _of_call(node: PromqlNode) -> Range:
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


def _of_aggregate(node: PromqlNode) -> Range:
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


def _of_operator(node: PromqlNode) -> Range:
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
