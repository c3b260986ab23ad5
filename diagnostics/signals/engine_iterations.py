"""An engine's iterations: what they are made of, how long they take, and what reading prompts adds to them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from statistics import fmean

from diagnostics import names
from diagnostics.signals.engine import ENGINE_WORK_SECONDS, engine_signal
from diagnostics.signals.engine_samples import FEWEST_READS, EngineReads, mean_over, over_engine, share_of
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit
from diagnostics.window.normalize import series_named
from diagnostics.window.view import METRICS, Counter, ModelView
from diagnostics.wire.engine import EngineSample

# Tokens of generation: each scheduled request in decoding adds one per iteration.
_ENOUGH_TOKENS = 30


def prefills(sample: EngineSample) -> bool | None:
    """Return whether the iteration read prompts; None when it is not said."""
    if sample.context is None and sample.context_tokens is None:
        return None
    return bool(sample.context) or bool(sample.context_tokens)


def _context_share(engine: EngineReads, _: ModelView) -> Reading:
    return share_of(engine.waiting or engine.live, prefills)


def _tokens(sample: EngineSample) -> float | None:
    if sample.context_tokens is None:
        return None
    return sample.context_tokens + (sample.generation or 0.0)


def _budget_fill(engine: EngineReads, _: ModelView) -> Reading:
    """Tokens of an iteration ÷ its budget; where the budget is not said, ÷ the most tokens of any iteration.

    An engine that is cut off by its budget puts about as many tokens into each iteration, so that the mean comes near
    the maximum; without a budget iterations differ as prompts do.
    """
    reads = engine.waiting
    stated = [tokens for read in reads if (tokens := _tokens(read)) is not None]
    budgets = [read.token_budget for read in reads if read.token_budget]
    if not reads:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    most = budgets[-1] if budgets else max(stated, default=0.0)
    if not most:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return mean_over([tokens / most for tokens in stated], Unit.RATIO, estimated=not budgets)


def _peak_tokens(engine: EngineReads, _: ModelView) -> Reading:
    stated = [tokens for read in engine.live if (tokens := _tokens(read)) is not None]
    budgets = [read.token_budget for read in engine.live if read.token_budget]
    if not stated:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(budgets[-1] if budgets else max(stated), Unit.COUNT, METRICS, estimated=not budgets)


def _iteration_seconds(engine: EngineReads, _: ModelView) -> Reading:
    """Mean time of an iteration: the time between live reads ÷ the iterations between them."""
    stated = [sample.iteration_seconds for sample in engine.live if sample.iteration_seconds]
    if stated:
        return mean_over(stated, Unit.SECONDS)
    seconds = iterations = 0.0
    for before, after in pairwise(engine.samples):
        if before.iterations is None or after.iterations is None or after.iterations <= before.iterations:
            continue
        if before.scheduled and after.scheduled:
            seconds, iterations = seconds + after.at - before.at, iterations + after.iterations - before.iterations
    if not iterations:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
    # An engine that pauses between two reads takes longer per iteration than it works: an upper bound.
    return Reading.of(seconds / iterations, Unit.SECONDS, METRICS, estimated=True, events=iterations, span=seconds)


def _engine_seconds(view: ModelView) -> Reading:
    """Return the mean of what vLLM's histogram of whole requests observed in the span: Δsum ÷ Δcount."""
    parts = (f"{names.VLLM_LATENCY}_sum", f"{names.VLLM_LATENCY}_count")
    points = [(own_value(view, at, parts[0]), own_value(view, at, parts[1])) for at in _ends(view)]
    if len(points) == 2 and None not in points[0] + points[1]:
        return _mean(points)
    return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)


def _mean(points: list[tuple[float | None, float | None]]) -> Reading:
    (first_sum, first_count), (last_sum, last_count) = points
    total, count = (last_sum or 0.0) - (first_sum or 0.0), (last_count or 0.0) - (first_count or 0.0)
    if count < 0 or total < 0:
        return Reading.unknown(Missing.RESET, Unit.SECONDS, METRICS)
    if count < _ENOUGH_TOKENS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if count else Missing.IDLE, Unit.SECONDS, METRICS)
    return Reading.of(total / count, Unit.SECONDS, METRICS, events=count)


def pages_inside(view: ModelView) -> list[int]:
    """Return the positions of the pages inside the span, in time order."""
    return [i for i, (at, _, _) in enumerate(view.server.snapshots) if view.start - 1e-6 <= at <= view.end + 1e-6]


def _ends(view: ModelView) -> list[int]:
    inside = pages_inside(view)
    return [inside[0], inside[-1]] if len(inside) >= 2 else []


def own_value(view: ModelView, position: int, name: str) -> float | None:
    """Return one family's value of the model, summed over its other labels; None when it is not there."""
    _, _, snapshot = view.server.snapshots[position]
    found = [
        value
        for series, value in series_named(snapshot, name)
        if view.model in (series.labels.get(names.MODEL), series.labels.get(names.SERVE_MODEL))
        and view.version in (None, "", series.labels.get(names.VERSION))
    ]
    return sum(found) if found else None


ENGINE_CONTEXT_SHARE = engine_signal(
    "engine_context_share",
    Unit.RATIO,
    "Share of the iterations read, while requests wait, that process prompts.",
    _context_share,
)
ENGINE_TOKENS_FILL = engine_signal(
    "engine_token_budget_fill",
    Unit.RATIO,
    "Tokens of an iteration ÷ its budget (or ÷ the largest iteration seen), mean while requests wait.",
    _budget_fill,
)
ENGINE_TOKEN_BUDGET = engine_signal(
    "engine_token_budget", Unit.COUNT, "Most tokens of an iteration: as stated, else as seen.", _peak_tokens
)
ENGINE_ITERATION_SECONDS = engine_signal(
    "engine_iteration_seconds", Unit.SECONDS, "Mean time of an iteration of the engine.", _iteration_seconds
)
ENGINE_SECONDS = Signal(
    name="engine_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Mean time of a request in the engine, from its arrival there to its last token.",
    readers=(_engine_seconds,),
    fix="trace requests (--trace-config=mode=opentelemetry --trace-config=level=TIMESTAMPS); a vLLM model tells it "
    'with the parameter REPORT_CUSTOM_METRICS "true"',
)


# Fewer stretches between reads than this leave a line through them free to tilt either way.
_FEWEST_STRETCHES = 8


def _rate(engine: EngineReads, _: ModelView) -> Reading:
    stated = [(read.at, read.iterations) for read in engine.samples if read.iterations is not None]
    if len(stated) < 2 or stated[-1][0] <= stated[0][0] or stated[-1][1] < stated[0][1]:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.PER_SECOND, METRICS)
    count, seconds = stated[-1][1] - stated[0][1], stated[-1][0] - stated[0][0]
    return Reading.of(count / seconds, Unit.PER_SECOND, METRICS, events=count, span=seconds)


def _at_work(engine: EngineReads, _: ModelView) -> Reading:
    """Return the share of reads with a scheduled request; the interval is Wilson's, which no count leaves empty."""
    live = set(map(id, engine.live))
    stated = [id(read) in live and read.scheduled > 0 for read in engine.samples if read.scheduled is not None]
    if len(stated) < FEWEST_READS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, METRICS)
    count, share = len(stated), fmean(stated)
    middle = (share + 1.92 / count) / (1 + 3.84 / count)
    spread = 1.96 * sqrt(share * (1 - share) / count + 0.96 / count**2) / (1 + 3.84 / count)
    working = engine.working
    return Reading.of(
        share * working,
        Unit.RATIO,
        METRICS,
        low=max(middle - spread, 0.0) * working,
        high=min(middle + spread, 1.0) * working,
        events=count,
    )


def _stretches(engine: EngineReads, view: ModelView) -> Iterator[tuple[float, float]]:
    """Yield iterations and joining requests per second of each stretch between two reads that found requests scheduled.

    Of generations shorter than a stretch, those that end in it joined in it or just before. Of longer ones, those join
    that end in it and did not run before it, and those that run after it; the gauge is of one iteration's moment.
    """
    work = ENGINE_WORK_SECONDS.read(view).value or 0.0
    steps = {(step.start, step.end): step for step in view.steps(METRICS)}
    for before, after in pairwise(engine.samples):
        step = steps.get((before.at, after.at))
        if step is None or before.iterations is None or after.iterations is None:
            continue
        if before.scheduled and after.scheduled and after.iterations > before.iterations:
            # Steady time: a clock that was set may give both reads one time.
            ended = step.values.get(Counter.SUCCESS, 0.0)
            requests = max(ended + after.scheduled - before.scheduled, 0.0) if work > step.seconds else ended
            yield (after.iterations - before.iterations) / step.seconds, requests / step.seconds


def _joining_seconds(engine: EngineReads, view: ModelView) -> Reading:
    """Least squares of `1 = base × iterations + joining × requests`, both per second, over the stretches."""
    points = list(_stretches(engine, view))
    if len(points) < _FEWEST_STRETCHES:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
    iterations, requests = [point[0] for point in points], [point[1] for point in points]
    x, y = fmean(requests), fmean(iterations)
    spread = sum((one - x) ** 2 for one in requests)
    if spread <= 0:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
    slope = sum((one - x) * (other - y) for other, one in points) / spread
    left = sum((other - y - slope * (one - x)) ** 2 for other, one in points)
    error = 1.96 * sqrt(left / (len(points) - 2) / spread)
    # The line meets the axis of iterations at 1 / base; its slope is -joining / base.
    low, value, high = (_joining(one, x, y) for one in (slope + error, slope, slope - error))
    return Reading.of(value, Unit.SECONDS, METRICS, low=low, high=high, estimated=True, events=len(points))


def _joining(slope: float, requests: float, iterations: float) -> float:
    return max(-slope, 0.0) / (iterations + max(-slope, 0.0) * requests)


ENGINE_ITERATION_RATE = engine_signal(
    "engine_iteration_rate", Unit.PER_SECOND, "Iterations of the engine per second of the window.", _rate
)
ENGINE_AT_WORK = engine_signal(
    "engine_at_work_share", Unit.RATIO, "Share of the reads at which the engine has scheduled requests.", _at_work
)
ENGINE_JOINING_SECONDS = engine_signal(
    "engine_joining_seconds",
    Unit.SECONDS,
    "What a request that joins adds to the engine's iterations (its prefill): by how much fewer iterations there are "
    "where more requests join.",
    _joining_seconds,
)


# Iterations of either kind below which their mean times say nothing of a difference.
_ENOUGH_ITERATIONS = 30
# An iteration of fewer tokens takes as long as one that reads the weights for a single token: the roofline's ridge at
# 16 bits, peak FLOP/s ÷ memory bandwidth, is 153 tokens of an A100, 206 of an H200, 295 of an H100, 400 of an L4.
LONG_PROMPTS = 400.0
# A token of a prompt costs 2 FLOP a weight once, and its keys and values are read in each iteration that follows. They
# cost as much after so many iterations: 66 on an L4, 90 on an H100, 175 on an A100, of 7 billion weights with 512 KiB
# of keys and values a token (Llama 2, 16 bits); grouped queries make it four times as many.
_READ_AS_LONG = 66.0


def _timed(engine: EngineReads, _: ModelView) -> Reading:
    """Time by which iterations that also read prompts outlast those that only generate, per generating iteration."""
    timed = [(s, s.iteration_seconds) for s in engine.live if s.iteration_seconds and s.generation]
    plain = [seconds for sample, seconds in timed if prefills(sample) is False]
    mixed = [seconds for sample, seconds in timed if prefills(sample)]
    if len(plain) < _ENOUGH_ITERATIONS or len(mixed) < _ENOUGH_ITERATIONS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if timed else Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    base = sum(plain) / len(plain)
    lost = sum(max(seconds - base, 0.0) for seconds in mixed)
    return Reading.of(lost / (sum(plain) + sum(mixed)), Unit.RATIO, METRICS, events=len(timed))


def _from_joining(engine: EngineReads, view: ModelView) -> Reading:
    """What joining requests add to the time that others run, where their prompts are long enough to take any.

    A request adds the reading of its prompt, and that of its keys and values in each of its iterations: the low end is
    without the most that these may be, the high end is all of it. Its own prompt stalls nobody but others.
    """
    prompt, generating = _prompt_tokens(engine, view), _generating(engine)
    joining, work = ENGINE_JOINING_SECONDS.read(view), ENGINE_WORK_SECONDS.read(view)
    iteration, rate = ENGINE_ITERATION_SECONDS.read(view), REQUEST_RATE.read(view)
    needed = (prompt, generating, joining, work, iteration, rate)
    if missing := next((one.missing for one in needed if one.missing is not None), None):
        return Reading.unknown(missing, Unit.RATIO, METRICS)
    if not work.value or not iteration.value or (prompt.value or 0.0) < LONG_PROMPTS:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    prefill = _READ_AS_LONG / (_READ_AS_LONG + work.value / iteration.value)
    others = (generating.value or 0.0) * max(1.0 - (joining.value or 0.0) / work.value, 0.0) * (rate.value or 0.0)
    low, value, high = (joining.low or 0.0) * prefill, (joining.value or 0.0) * prefill, joining.high or 0.0
    return Reading.of(
        min(value * others, 1.0),
        Unit.RATIO,
        METRICS,
        low=min(low * others, 1.0),
        high=min(high * others, 1.0),
        estimated=True,
        events=joining.events,
    )


def _prompt_tokens(engine: EngineReads, _: ModelView) -> Reading:
    reads = [sample.context_tokens for sample in engine.live if prefills(sample) and sample.context_tokens is not None]
    return mean_over(reads, Unit.COUNT)


def _generating(engine: EngineReads) -> Reading:
    """Return the share of the iterations with prompts in which other requests generate."""
    return mean_over([1.0 if read.generation else 0.0 for read in engine.live if prefills(read)], Unit.RATIO)


ENGINE_PROMPT_TOKENS = engine_signal(
    "engine_prompt_tokens", Unit.COUNT, "Tokens of prompts in an iteration that reads any, mean.", _prompt_tokens
)
ENGINE_PREFILL_STALL = Signal(
    name="engine_prefill_stall_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of generating iterations' time by which those with prompts outlast those without: timed, else from what "
    "a request that joins adds, where prompts are long.",
    readers=(over_engine(_timed, Unit.RATIO), over_engine(_from_joining, Unit.RATIO)),
    fix="let trtllm-serve report its iterations (enable_iter_perf_stats)",
)
