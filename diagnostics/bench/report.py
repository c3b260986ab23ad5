"""What was sent, stated so that two load tests can be compared."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import msgspec

from diagnostics.bench.block import MEASURES, Diagnosis, LoadBlock, RequestLimits
from diagnostics.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The requests of a load test.

    Attributes:
        digest: of what is in the requests, the names of tensors left out; equal digests are equal contents.
        variants: how many different requests there are.
        text: whether they are prompts.
        length: words of a prompt, or the size of variable dimensions; None where there are none, or a file gave the
            requests.
        max_tokens: tokens that each answer may have; None where the model takes no such limit.
        asked: what of `max_tokens`, `min_tokens`, `ignore_eos` and `greedy` the requests ask for.
        streaming: whether responses come one by one.
        counted_by: what counts the tokens of answers; empty where nothing does.

    """

    digest: str
    variants: int
    text: bool
    length: int | None
    max_tokens: int | None = None
    asked: tuple[str, ...] = ()
    streaming: bool = False
    counted_by: str = ""

    @property
    def generates(self) -> bool:
        """Whether answers have a length that is asked for."""
        return self.max_tokens is not None

    @property
    def unasked(self) -> tuple[str, ...]:
        """What would make answers equally long and is not asked, as the model takes no such input."""
        return tuple(
            name for name in ("min_tokens", "ignore_eos", "greedy") if self.generates and name not in self.asked
        )


def differences(one: Workload, other: Workload) -> Iterator[str]:
    """Yield how two workloads differ, a few words each; nothing where they match."""
    for what, a, b in (
        ("kind", _kind(one), _kind(other)),
        ("responses", _responses(one), _responses(other)),
        ("max_tokens", one.max_tokens, other.max_tokens),
        ("asked for", ", ".join(one.asked) or "nothing", ", ".join(other.asked) or "nothing"),
        ("length of inputs", one.length, other.length),
    ):
        if a != b:
            yield f"{what}: {_word(a)} against {_word(b)}"
    if one.digest != other.digest and one.length == other.length:
        yield "contents of the requests (seed, or --input)"


def _responses(workload: Workload) -> str:
    return "one by one" if workload.streaming else "whole"


def _kind(workload: Workload) -> str:
    return "prompts" if workload.text else "tensors"


def _word(value: object) -> str:
    return "unknown" if value is None else str(value)


# The 0.975 quantiles of Student's t for 1, 2, … degrees of freedom: tables of any textbook, such as the NIST/SEMATECH
# e-Handbook of Statistical Methods, 1.3.6.7.2.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
MOST_BLOCKS = len(_T) + 1
RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMean:
    """A mean over blocks and its 95 % confidence interval; one block alone has none: both ends are None then."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def margin(self) -> float | None:
        """Half the interval's width; None without one."""
        return None if self.high is None else self.high - self.value


def estimate(values: Sequence[float | None]) -> BlockMean | None:
    """Return the mean of one value per block with Student's interval, mean ± t·s/√n; None where a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    mean, count = statistics.fmean(known), len(known)
    if count < 2:
        return BlockMean(value=mean)
    margin = _T[min(count, MOST_BLOCKS) - 2] * statistics.stdev(known) / math.sqrt(count)
    return BlockMean(value=mean, low=mean - margin, high=mean + margin)


def resampled(values: Sequence[float], chance: random.Random) -> float:
    """Return the mean of one bootstrap sample of a point's blocks.

    The spread of a bootstrap mean is √((n−1)/n) of the right one, which is a lot for three blocks: it is widened by
    the inverse (Davison and Hinkley, Bootstrap Methods and their Application, 1997, §2.3). Points are sampled apart
    from each other, which overstates the uncertainty of differences where blocks have drifted together.
    """
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return mean
    drawn = statistics.fmean(chance.choices(values, k=count))
    return mean + (drawn - mean) * math.sqrt(count / (count - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load of a sweep: `load` clients (closed loop) or requests per second (open loop), and its blocks."""

    load: float
    blocks: tuple[LoadBlock, ...]

    def estimate(self, measure: str) -> BlockMean | None:
        """Return a measure of MEASURES over the blocks; None where a block does not have it."""
        return estimate([MEASURES[measure](block) for block in self.blocks])

    def values(self, measure: str) -> list[float]:
        """Return a measure of each block that has it."""
        return [value for block in self.blocks if (value := MEASURES[measure](block)) is not None]

    def diagnosed(self) -> tuple[Diagnosis | None, int]:
        """Return what most blocks were diagnosed as, and how many were; None and 0 where none was looked at.

        A cause is named only where more than half of the blocks have it, else the commonest verdict stands without one.
        """
        found = [block.diagnosis for block in self.blocks if block.diagnosis is not None]
        if not found:
            return None, 0
        cause, count = Counter(one.cause for one in found).most_common(1)[0]
        if cause and 2 * count > len(self.blocks):
            return next(one for one in found if one.cause == cause), count
        verdict, count = Counter(one.verdict for one in found).most_common(1)[0]
        alike = [one for one in found if one.verdict == verdict]
        if not any(one.cause for one in found):
            return alike[0], count
        texts = dict.fromkeys(one.text for one in alike)
        return Diagnosis(verdict=verdict, cause="", text=f"causes differ: {'; '.join(texts)}"), count


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """What one target did with the loads.

    Attributes:
        name: `host:port` of the endpoint.
        model: what was asked.
        protocol: `http`, `grpc` or `generate`.
        workload: what each request was.
        points: by ascending load; those that were not measured are absent.
        notes: what limits the numbers, a sentence each.

    """

    name: str
    model: str
    protocol: str
    workload: Workload
    points: tuple[LoadPoint, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """A load test.

    Attributes:
        schema_version: of the JSON form; a reader of 1 reads all of 1.
        started: Unix seconds.
        loop: `closed` (loads are clients) or `open` (loads are requests per second, arriving as a Poisson process).
        seconds: measured time of a block.
        warm_up: seconds of load before it.
        blocks: how often each load was to be measured.
        seed: of schedules, inputs and order.
        limits: what goodput counts.
        targets: the results; one or two.
        ended: why the test ended before all was measured; empty if all was.

    """

    schema_version: int = 1
    started: float
    loop: Literal["closed", "open"]
    seconds: float
    warm_up: float
    blocks: int
    seed: int
    limits: RequestLimits = field(default_factory=RequestLimits)
    targets: tuple[TargetResult, ...]
    ended: str = ""

    @property
    def silent(self) -> bool:
        """Whether a target that was under load answered no request."""
        blocks = [[block for point in target.points for block in point.blocks] for target in self.targets]
        return any(each and not any(block.throughput for block in each) for each in blocks)

    @property
    def axis(self) -> str:
        """What a load counts."""
        return "clients" if self.loop == "closed" else "requests/s"

    @property
    def head(self) -> str:
        """The same as a column's heading, kept apart from what was answered."""
        return "clients" if self.loop == "closed" else "offered/s"


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
