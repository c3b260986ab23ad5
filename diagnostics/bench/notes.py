"""What limits the numbers of a load test, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.bench.block import Block
from diagnostics.bench.report import Point
from diagnostics.bench.workload import Workload
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


def notes_of(workload: Workload, points: Sequence[Point]) -> Iterator[str]:
    """Yield what the reader of the numbers has to know."""
    if workload.unasked:
        yield (
            f"the model takes no input for {', '.join(workload.unasked)}: answers may be shorter than "
            f"{workload.max_tokens} tokens"
        )
    if workload.generates and not workload.counted_by:
        yield "tokens are unknown, as no output counts them: give --tokenizer or --tokens-from for figures per token"
    if workload.streaming and points and not any(block.ttft_p50 for point in points for block in point.blocks):
        yield "answers came in one response each: there is no time to first token to see"
    yield from _of_lengths(workload, points)
    busy = [point.load for point in points if any(_is_busy(block) for block in point.blocks)]
    if busy:
        yield f"the client itself was busy at {_loads(busy)}: the server may be faster than shown"
    late = [point.load for point in points if any(_is_late(block) for block in point.blocks)]
    if late:
        yield (
            f"requests were sent late at {_loads(late)}, as the client was busy or all its connections waited: the "
            "wait is part of the latencies"
        )


def _of_lengths(workload: Workload, points: Sequence[Point]) -> Iterator[str]:
    blocks = [block for point in points for block in point.blocks]
    fewest = min((block.fewest_tokens for block in blocks if block.fewest_tokens is not None), default=None)
    most = max((block.most_tokens for block in blocks if block.most_tokens is not None), default=None)
    if fewest is not None and most is not None and fewest != most:
        yield f"answers had {fewest} to {most} tokens, not {workload.max_tokens} each"


def _is_busy(block: Block) -> bool:
    return block.client_busy is not None and block.client_busy > MOST_BUSY.value


def _is_late(block: Block) -> bool:
    return bool(block.late_p99 and block.p50 and block.late_p99 > MOST_LATE.value * block.p50)


def _loads(loads: Sequence[float]) -> str:
    return ", ".join(f"{load:g}" for load in loads)
