"""What text, Markdown, HTML and pictures say of a load test, in the same words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diagnostics.bench.block import LoadBlock
from diagnostics.bench.crossover import FEWEST_POINTS, Comparison, CrossoverOutcome, Knee, compare, knee
from diagnostics.bench.report import BenchReport, BlockMean, LoadPoint, TargetResult
from diagnostics.units import Unit

PROTOCOL_WORDS = {
    "http": "KServe HTTP",
    "grpc": "KServe gRPC",
    "generate": "generate",
    "chat": "chat",
    "completions": "completions",
}
MEASURE_WORDS: Mapping[str, str] = {
    "mean": "mean latency",
    "p50": "median latency",
    "p95": "p95 latency",
    "ttft_p50": "median time to first token",
    "ttft_p95": "p95 time to first token",
    "tpot": "time per output token",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table of points: a measure, its heading and its unit."""

    measure: str
    head: str
    unit: Unit


_MAIN = (
    Column(measure="throughput", head="requests/s", unit=Unit.COUNT),
    Column(measure="mean", head="mean", unit=Unit.SECONDS),
    Column(measure="p95", head="p95", unit=Unit.SECONDS),
    Column(measure="p99", head="p99", unit=Unit.SECONDS),
)
_FURTHER = (
    Column(measure="ttft_p50", head="TTFT p50", unit=Unit.SECONDS),
    Column(measure="ttft_p95", head="TTFT p95", unit=Unit.SECONDS),
    Column(measure="tpot", head="TPOT", unit=Unit.SECONDS),
    Column(measure="token_throughput", head="tokens/s", unit=Unit.COUNT),
    Column(measure="goodput", head="goodput/s", unit=Unit.COUNT),
)


def columns(target: TargetResult) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns that every target has, and those further ones that this one has values for."""
    seen = tuple(one for one in _FURTHER if any(point.estimate(one.measure) for point in target.points))
    return _MAIN, seen


def cell(point: LoadPoint, column: Column) -> str:
    """Return a measure with half its confidence interval as a share, as `179 ms ±3 %`; `—` where there is none."""
    found = point.estimate(column.measure)
    if found is None:
        return "—"
    return f"{column.unit.show(found.value)}{margin(found)}"


def margin(found: BlockMean) -> str:
    """Return ` ±3 %`, rounded up to whole percents; empty of a single block or of zero."""
    if found.margin is None or found.value <= 0:
        return ""
    return f" ±{max(1, min(math.ceil(100 * found.margin / found.value), 999))} %"


def failed(point: LoadPoint) -> str:
    """Return how many requests failed, and of how many."""
    requests = sum(block.requests for block in point.blocks)
    return f"{sum(block.failed for block in point.blocks)}/{requests}"


def title(report: BenchReport, target: TargetResult) -> str:
    """Return what was asked, where and how."""
    streaming = ", streaming" if target.workload.streaming else ""
    loop = "closed loop" if report.loop == "closed" else "open loop (Poisson)"
    return f"{target.model} at {target.name}, {PROTOCOL_WORDS.get(target.protocol, target.protocol)}{streaming}, {loop}"


def method(report: BenchReport) -> str:
    """Return how it was measured."""
    show = Unit.SECONDS.show
    count = f"{report.blocks} block{'' if report.blocks == 1 else 's'} of {show(report.seconds)}"
    interval = "± is 95 % confidence" if report.blocks > 1 else "one block gives no uncertainty"
    return f"{count} a load, {show(report.warm_up)} of warm-up, seed {report.seed}; {interval}"


def workload(target: TargetResult) -> str:
    """Return what each request was."""
    sent = target.workload
    kind = "prompt" if sent.text else "request"
    size = "" if sent.length is None else f" of {sent.length} words" if sent.text else f", variable sizes {sent.length}"
    answer = ""
    if sent.generates:
        most = "up to " if sent.unasked else ""
        answer = f"; {most}{sent.max_tokens} tokens an answer ({', '.join(sent.asked)} asked for)"
    count = f"one {kind}" if sent.variants == 1 else f"{sent.variants} different {kind}s"
    return f"{count}{size}{answer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointDiagnosis:
    """What is shown of a load's diagnosis.

    Attributes:
        load: the load.
        stated: what was diagnosed, and in how many blocks.
        more: the cause in a sentence, and what to do; empty where there is no more to say.
        new: whether no lower load was diagnosed as the same.

    """

    load: float
    stated: str
    more: str = ""
    new: bool = True


def diagnoses(target: TargetResult) -> Iterator[PointDiagnosis]:
    """Yield what each load was diagnosed as."""
    known: set[str] = set()
    for point in target.points:
        found, count = point.diagnosed()
        if found is None:
            yield PointDiagnosis(load=point.load, stated="not diagnosed, as its counters were not read")
            continue
        of = f" ({count} of {len(point.blocks)} blocks)" if len(point.blocks) > 1 else ""
        text = "" if found.cause else found.text
        more = "; ".join(filter(None, (found.text if found.cause else "", found.step)))
        what = found.cause or found.verdict
        yield PointDiagnosis(load=point.load, stated=_stated(what, of, text), more=more, new=what not in known)
        known.add(what)


def _stated(what: str, of: str, why: str) -> str:
    """Return a cause or a verdict in words; `why` explains a verdict."""
    if what == "idle":
        return f"not judged{of}: {why}; give a longer --duration"
    return f"{what}{of}: {why}" if why and what != "healthy" else f"{what}{of}"


def knee_text(report: BenchReport, target: TargetResult) -> str:
    """Return where the knee is, how sure that is and what to measure next."""
    found = knee(target.points, report.seed)
    if found is None:
        return f"knee: unknown; it takes {FEWEST_POINTS} loads"
    # A closed loop has no load below one client.
    lower = report.loop == "open" or target.points[0].load > 1
    return f"knee: {_knee(found, report, lower=lower)}"


def most_text(report: BenchReport, target: TargetResult) -> str:
    """Return the load with the greatest throughput, and its mean latency."""
    rates = [(rate.value, point) for point in target.points if (rate := point.estimate("throughput"))]
    if not rates:
        return "nothing was measured"
    value, point = max(rates, key=lambda each: each[0])
    mean = point.estimate("mean")
    latency = f" with {Unit.SECONDS.show(mean.value)} of mean latency" if mean else ", none of them successful"
    return f"at most {Unit.PER_SECOND.show(value)}, at {_load(report, point.load)}{latency}"


def _knee(found: Knee, report: BenchReport, *, lower: bool) -> str:
    if found.low is None or found.high is None:
        sure = "one block per load does not show how certain that is"
    elif found.low == found.high:
        sure = "in 90 % of resamples"
    else:
        sure = f"{found.low:g} to {found.high:g} in 90 % of resamples"
    if found.above:
        return f"not below {_load(report, found.low or found.load)}; measure higher loads ({sure})"
    if found.below and lower:
        return f"at {_load(report, found.high or found.load)} or below; measure lower loads ({sure})"
    return f"{_load(report, found.load)} ({sure}): more load adds more latency than throughput"


def _load(report: BenchReport, load: float) -> str:
    """Return a load with what it counts."""
    return "1 client" if report.loop == "closed" and load == 1 else f"{load:g} {report.axis}"


def goodput_text(report: BenchReport, target: TargetResult) -> str:
    """Return the load with the most goodput; empty without limits."""
    if not report.limits:
        return ""
    known = [(one.value, point.load) for point in target.points if (one := point.estimate("goodput"))]
    if not known:
        return f"goodput under {report.limits}: unknown, {_unseen(report, target)}"
    value, load = max(known)
    kept = next(point for point in target.points if point.load == load)
    good, all_of = (sum(_count(block, what) for block in kept.blocks) for what in ("good", "requests"))
    share = f"{Unit.RATIO.show(good / all_of)} of requests kept it" if all_of else "no request"
    return f"goodput under {report.limits}: at most {Unit.PER_SECOND.show(value)}, at {_load(report, load)} ({share})"


def _unseen(report: BenchReport, target: TargetResult) -> str:
    """Return why the limits cannot be judged, and what to do about it."""
    blocks = [block for point in target.points for block in point.blocks if block.requests]
    if not blocks:
        return "as no request was measured"
    needed = [name for name, limit in report.limits.pairs() if limit is not None]
    if any(block.ttft_p50 is None for block in blocks) and {"ttft", "tpot"} & set(needed):
        return "as the first token of an answer is not seen: take responses one by one (--streaming)"
    return "as tokens are not counted: give --tokenizer or --tokens-from"


def _count(block: LoadBlock, what: str) -> int:
    return getattr(block, what) or 0


def compared(report: BenchReport, measure: str) -> Comparison | None:
    """Return how the report's two targets compare; None of one, or where they share no load."""
    if len(report.targets) != 2:
        return None
    return compare(*report.targets, measure=measure, seed=report.seed)


def sides(report: BenchReport) -> tuple[str, ...]:
    """Return a name of each target that distinguishes them."""
    targets = report.targets
    for names in (
        [target.name for target in targets],
        [f"{target.model} at {target.name}" for target in targets],
        [f"{target.name} ({target.protocol})" for target in targets],
    ):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{target.name} {mark}" for target, mark in zip(targets, ("A", "B"), strict=False))


def verdict(report: BenchReport, found: Comparison) -> str:
    """Return what two targets' curves do, with how sure that is."""
    what, names = MEASURE_WORDS[found.measure], sides(report)
    sure = "" if found.confidence is None else f" ({Unit.RATIO.show(found.confidence)} of resamples)"
    span = f"{found.loads[0]:g} to {found.loads[-1]:g} {report.axis}"
    match found.outcome:
        case CrossoverOutcome.CROSSOVER:
            low, high = found.between or (found.loads[0], found.loads[-1])
            between = f"{found.low:.3g} to {found.high:.3g} in 90 % of resamples"
            interpolated = f"interpolated between {low:g} and {high:g}"
            return f"{_plural(what)} cross at {found.load:.3g} {report.axis}, {interpolated} ({between})"
        case CrossoverOutcome.FIRST_BETTER | CrossoverOutcome.SECOND_BETTER:
            better = names[found.outcome is CrossoverOutcome.SECOND_BETTER]
            return f"no crossover: {better} has the lower {what} throughout {span}{sure}"
        case _:
            return f"undecided: {_plural(what)} do not differ the same way in 95 % of resamples, over {span}"


def _plural(what: str) -> str:
    return what.replace("latency", "latencies").replace("time ", "times ")


def routing(report: BenchReport, found: Comparison) -> str:
    """Return how to route traffic after a comparison, or what to measure first."""
    names = sides(report)
    match found.outcome:
        case CrossoverOutcome.CROSSOVER:
            low, high = names[found.low_load_better], names[1 - found.low_load_better]
            return (
                f"route: to {low} while load stays under {found.low:.3g} {report.axis} (latency regime), to {high} "
                f"above {found.high:.3g} (throughput regime){_untried(found)}"
            )
        case CrossoverOutcome.FIRST_BETTER | CrossoverOutcome.SECOND_BETTER:
            return (
                f"route: everything to {names[found.outcome is CrossoverOutcome.SECOND_BETTER]}, at the loads measured"
            )
        case _:
            return f"route: no recommendation; measure more blocks (--blocks {max(2 * report.blocks, 6)})"


def _untried(found: Comparison) -> str:
    low, high = found.between or (found.loads[0], found.loads[-1])
    return f"; nothing was measured between {low:g} and {high:g}: loads there would narrow it"


def ratio_rows(found: Comparison) -> Iterator[tuple[float, str]]:
    """Yield load and how much higher or lower the second target is there."""
    for load, ratio in zip(found.loads, found.ratios, strict=True):
        yield load, f"{ratio:.2f}"
