"""Load tests that were kept in a file, read back with care: what a test cannot have measured is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import msgspec

from diagnostics.bench.block import LoadBlock
from diagnostics.bench.estimate import MOST_BLOCKS
from diagnostics.bench.report import BenchReport, LoadPoint, TargetResult
from diagnostics.errors import UsageError

SCHEMA_VERSION = 1
# Seconds, requests a second and tokens alike: sums of squares of it do not overflow.
_MOST = 1e12
_MOST_SECONDS = 253_402_300_799.0  # the last one that calendars of four digits have
_ABOVE_ZERO = frozenset({"seconds", "mean", "p50", "p95", "p99", "ttft_p50", "ttft_p95"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What says which reader a document is for: all other fields may have changed."""

    schema_version: int = SCHEMA_VERSION


def parse_report(body: bytes, where: str) -> BenchReport:
    """Return the report that a JSON document holds; what else is in it is left alone.

    Raises:
        UsageError: it is no report of `diag bench`, or of another version; names `where` it is from.

    """
    try:
        version = msgspec.json.decode(body, type=_Head).schema_version
        if version == SCHEMA_VERSION:
            return _plausible(msgspec.json.decode(body, type=BenchReport), where)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = "diag bench --output json writes one"
        raise UsageError(f"is no report of diag bench ({error})", where=where, hint=hint) from None
    hint = "show it with the diag that wrote it, or measure anew"
    raise UsageError(f"has schema version {version}, and {SCHEMA_VERSION} is known", where=where, hint=hint)


def _plausible(report: BenchReport, where: str) -> BenchReport:
    wrong = next(_implausible(report), None)
    if wrong is not None:
        raise UsageError(f"is no report of diag bench ({wrong})", where=where)
    return report


def _implausible(report: BenchReport) -> Iterator[str]:
    if not 1 <= len(report.targets) <= 2:
        yield f"{len(report.targets)} targets"
    if not (0 <= report.started <= _MOST_SECONDS and 0 < report.seconds <= _MOST and 0 <= report.warm_up <= _MOST):
        yield "times that no test has"
    if not 1 <= report.blocks <= MOST_BLOCKS:
        yield f"{report.blocks} blocks"
    for number, target in enumerate(report.targets):
        yield from (f"{what} - at `$.targets[{number}]`" for what in _of_target(target))


def _of_target(target: TargetResult) -> Iterator[str]:
    loads = [point.load for point in target.points]
    if loads != sorted(set(loads)) or not all(0 < load <= _MOST for load in loads):
        yield f"loads that do not rise from above 0: {', '.join(f'{load:g}' for load in loads)}"
    for point in target.points:
        yield from (f"{what} at load {point.load:g}" for what in _of_point(point))


def _of_point(point: LoadPoint) -> Iterator[str]:
    if not 1 <= len(point.blocks) <= MOST_BLOCKS:
        yield f"{len(point.blocks)} blocks"
    for block in point.blocks:
        yield from _of_block(block)


def _of_block(block: LoadBlock) -> Iterator[str]:
    for each in fields(block):
        value = getattr(block, each.name)
        if not isinstance(value, int | float):
            continue
        if not (math.isfinite(value) and 0 <= value <= _MOST) or (value == 0 and each.name in _ABOVE_ZERO):
            yield f"{each.name} {value:g}"
    if block.failed > block.requests:
        yield f"{block.failed} of {block.requests} requests failed"
