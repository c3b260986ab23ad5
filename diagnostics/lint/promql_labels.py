"""Which labels the series of an expression surely have, and which they cannot have, as far as Triton decides it.

Labels of the target (`job`, `instance`) are on every scraped series; a scrape configuration may add any other, so that
only Triton's own are known to be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics import names
from diagnostics.lint.metrics import ENGINE_LABELS, OF_HOST, of_gpu, of_model
from diagnostics.lint.promql import NodeKind, PromqlNode

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
