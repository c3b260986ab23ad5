"""What limits the numbers of a load test, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from diagnostics.bench.block import LoadBlock
from diagnostics.bench.report import LoadPoint, Workload
from diagnostics.units import Limit, Unit

MOST_BUSY = Limit(
    value=0.8,
    unit=Unit.RATIO,
    because="a single thread that is busy more than this queues its own work: 1/(1−ρ) is 5 there (M/M/1)",
)
MOST_LATE = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="a lateness of the client above a twentieth of the median latency shows in it",
)
MOST_OTHERS = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="requests of others above a twentieth of the test's lengthen a queue by more than repetitions differ",
)
# Requests that end while counters are read may be counted on either side.
_FEWEST_OTHERS = 5
# A Poisson count differs from its mean by more than three times its root in one of four hundred runs.
BACKLOG = Limit(value=3.0, unit=Unit.RATIO, because="roots of a Poisson count that chance does not explain")
# The nearest-rank p99 of fewer is their longest.
_FEWEST_FOR_P99 = 100


def notes_of(
    workload: Workload, points: Sequence[LoadPoint], *, closed: bool = True, warm_up: float = math.inf
) -> Iterator[str]:
    """Yield what the reader of the numbers has to know.

    Args:
        workload: what each request was.
        points: what was measured.
        closed: whether the loop is.
        warm_up: seconds of load before the measured time.

    """
    if workload.unasked:
        yield (
            f"the model takes no input for {', '.join(workload.unasked)}: answers may be shorter than "
            f"{workload.max_tokens} tokens"
        )
    if workload.generates and not workload.counted_by:
        yield "tokens are unknown, as no output counts them: give --tokenizer or --tokens-from for figures per token"
    if workload.streaming and points and not any(block.ttft_p50 for point in points for block in point.blocks):
        yield "no answer came in parts with text: there is no time to first token to see"
    yield from _of_lengths(workload, points)
    yield from _of_failures(points)
    yield from _of_counts(points)
    yield from _of_settling(points, closed, warm_up)
    yield from _of_others(points)
    busy = [point.load for point in points if any(_is_busy(block) for block in point.blocks)]
    if busy:
        yield f"the client itself was busy at {_loads(busy)}: the server may be faster than shown"
    late = [point.load for point in points if any(_is_late(block) for block in point.blocks)]
    if late:
        yield (
            f"requests were sent late at {_loads(late)}, as the client was busy or all its connections waited: the "
            "wait is part of the latencies"
        )


def _of_lengths(workload: Workload, points: Sequence[LoadPoint]) -> Iterator[str]:
    blocks = [block for point in points for block in point.blocks]
    fewest = min((block.fewest_tokens for block in blocks if block.fewest_tokens is not None), default=None)
    most = max((block.most_tokens for block in blocks if block.most_tokens is not None), default=None)
    if fewest is not None and most is not None and fewest != most:
        yield f"answers had {fewest} to {most} tokens, not {workload.max_tokens} each"


def _of_failures(points: Sequence[LoadPoint]) -> Iterator[str]:
    failing = [point.load for point in points if any(block.error for block in point.blocks)]
    errors = Counter[str]()
    for block in (block for point in points for block in point.blocks if block.error):
        errors[block.error] += block.failed
    if errors:
        yield f"requests failed at {_loads(failing)}, most of them with: {max(errors, key=errors.__getitem__)}"


def _of_counts(points: Sequence[LoadPoint]) -> Iterator[str]:
    none = [point.load for point in points if not all(block.requests or block.error for block in point.blocks)]
    if none:
        yield (
            f"no request began in a measured time at {_loads(none)}, as an answer takes longer than it and warm-up "
            "together: give a longer --duration"
        )
    few = [point.load for point in points if any(0 < block.requests < _FEWEST_FOR_P99 for block in point.blocks)]
    if few:
        yield (
            f"p99 is the longest of a block's requests at {_loads(few)}, where it has fewer than {_FEWEST_FOR_P99}: "
            "give a longer --duration"
        )


def _of_others(points: Sequence[LoadPoint]) -> Iterator[str]:
    shared = {point.load: max(map(_others, point.blocks)) for point in points if any(map(_others, point.blocks))}
    if shared:
        yield (
            f"others asked the same model at {_loads(list(shared))}, up to {max(shared.values()):.3g} requests/s: the "
            "latencies are of both loads"
        )


def _others(block: LoadBlock) -> float:
    """Return the requests per second of others; 0 where they are too few to matter, or not known."""
    found = block.diagnosis.others if block.diagnosis is not None and block.diagnosis.others is not None else 0.0
    return found if found > MOST_OTHERS.value * block.throughput and found * block.seconds >= _FEWEST_OTHERS else 0.0


def _of_settling(points: Sequence[LoadPoint], closed: bool, warm_up: float) -> Iterator[str]:
    behind = [] if closed else [point.load for point in points if any(_is_behind(block) for block in point.blocks)]
    if behind:
        yield (
            f"answers fell behind the requests at {_loads(behind)}: a longer test would show longer latencies, unless "
            "an answer takes longer than --warm-up"
        )
    long = [point.load for point in points if any((block.mean or 0.0) > warm_up for block in point.blocks)]
    if unsettled := [load for load in long if load not in behind]:
        yield (
            f"an answer takes longer than the warm-up at {_loads(unsettled)}, so that requests met a server that had "
            "not settled: give a longer --warm-up"
        )


def _is_behind(block: LoadBlock) -> bool:
    answered = block.throughput * block.seconds + block.failed
    return block.requests - answered > BACKLOG.value * math.sqrt(block.requests)


def _is_busy(block: LoadBlock) -> bool:
    return block.client_busy is not None and block.client_busy > MOST_BUSY.value


def _is_late(block: LoadBlock) -> bool:
    return bool(block.late_p99 and block.p50 and block.late_p99 > MOST_LATE.value * block.p50)


def _loads(loads: Sequence[float]) -> str:
    return ", ".join(f"{load:g}" for load in loads)
