"""What the window of an engine says of its iterations, of the requests that come, and of its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_loop import (
    GUARANTEED_NO_EVICT,
    MAX_UTILIZATION,
    SGLANG,
    VLLM,
    EngineLimits,
    EngineLoad,
    TokenCount,
)
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.signals.engine import ENGINE_BLOCK_TOKENS, ENGINE_KV_BLOCKS, ENGINE_KV_NEED, ENGINE_SLOTS
from diagnostics.signals.engine_history import EngineHistory, EngineStep, ObservedSizes
from diagnostics.signals.signal import Subject
from diagnostics.units import Unit
from diagnostics.wire.engine import EngineSample

Interval = tuple[float, float]
_POLICIES = {one.name: one for one in (GUARANTEED_NO_EVICT, MAX_UTILIZATION, VLLM, SGLANG)}
# Fewer stretches leave a line through them free to tilt either way; fewer times between tokens, their mean to chance.
FEWEST_POINTS, FEWEST_GAPS = 8, 100
# Requests inside that differ by no more than this from read to read are those of clients that wait for their answers.
_STEADY = 0.08
_FEWEST_READS = 8
# Variability of lengths that no histogram tells: from all alike to exponential.
_UNKNOWN_SCV, _CENTRAL_SCV = (0.0, 1.0), 0.3


GAPS = (
    "read a minute under load, every second or two, in which the server exports its inter-token latency or its "
    "iterations (trtllm-serve: enable_iter_perf_stats)"
)
TOKENS = "read a page that counts generated tokens: generation_tokens_total, or a histogram of them"
PROMPTS = "read a page that counts tokens of prompts: prompt_tokens_total, or a histogram of them"
# Tokens that an iteration brings a request, where times per token and per iteration differ. Speculative decoding that
# pays brings 1.5 and more; rounding, and requests that end between two reads, hardly a fifth.
_SEVERAL = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationPoint:
    """Iterations of one stretch: mean seconds, requests that decode, tokens of prompts that one reads, its weight."""

    seconds: float
    decoding: float
    tokens: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEngine:
    """What the window shows, in seconds; None is what is not exported.

    Attributes:
        first_token: mean time to the first token.
        per_token: mean time per output token after the first.
        queue: mean wait until the engine begins with a request.
        latency: mean time of a request.
        running: mean requests that decode.
        throughput: answered requests per second.
        span: length of the window.

    """

    first_token: float | None
    per_token: float | None
    queue: float | None
    latency: float | None
    running: float
    throughput: float
    span: float


def points_of(history: EngineHistory) -> list[IterationPoint]:
    """Return the iterations of each stretch, from what tells them best: listed, by times between tokens, counted."""
    return _listed_points(history) or _timed_points(history) or _counted_points(history)


def _listed_points(history: EngineHistory) -> list[IterationPoint]:
    samples = history.reads.samples if history.reads else ()
    listed = [
        IterationPoint(
            seconds=one.iteration_seconds, decoding=one.generation, tokens=one.context_tokens or 0.0, weight=1.0
        )
        for one in samples
        if one.iteration_seconds and one.generation
    ]
    return listed if len(listed) >= _FEWEST_LISTED else []


def _timed_points(history: EngineHistory) -> list[IterationPoint]:
    timed = [point for step in history.steps if (point := _timed(step)) is not None]
    return timed if len(timed) >= FEWEST_POINTS and sum(point.weight for point in timed) >= FEWEST_GAPS else []


def _counted_points(history: EngineHistory) -> list[IterationPoint]:
    return [point for step in history.steps if (point := _counted(step)) is not None]


_FEWEST_LISTED = 30


def _timed(step: EngineStep) -> IterationPoint | None:
    if not step.gaps or not step.gap_seconds:
        return None
    each = step.gap_seconds / step.gaps
    return IterationPoint(
        seconds=each,
        # Where fewer than one decodes on average, there is one whenever a token comes.
        decoding=max(step.gap_seconds / step.seconds, 1.0),
        tokens=(step.prompt_tokens or 0.0) * each / step.seconds,
        weight=step.gaps,
    )


def _counted(step: EngineStep) -> IterationPoint | None:
    before, after = step.before, step.after
    if not step.iterations or before is None or after is None or not before.scheduled or not after.scheduled:
        return None
    decoding = fmean((one.scheduled or 0.0) if one.generation is None else one.generation for one in (before, after))
    read = step.prompt_tokens
    each = fmean(one.context_tokens or 0.0 for one in (before, after)) if read is None else read / step.iterations
    seconds = step.seconds / step.iterations
    return IterationPoint(seconds=seconds, decoding=max(decoding, 1.0), tokens=each, weight=step.iterations)


def shown_part(history: EngineHistory, measured: MeasuredEngine) -> float:
    """Return how much of what the points' decoding requests differ by is of their stretches; 1 where all of it is.

    Counted iterations are set against the requests that ran at both ends of a stretch. Of those of its middle, they
    show as much as a request lasts of it: the correlation of how many are in M/G/∞ where all last as long.
    """
    if _listed_points(history) or _timed_points(history):
        return 1.0
    lasts = measured.running / measured.throughput
    return min(max(lasts / fmean(step.seconds for step in history.steps), _LEAST_SHOWN), 1.0)


# Below, what is seen of a stretch is chance.
_LEAST_SHOWN = 0.1


def measured_engine(history: EngineHistory, points: Sequence[IterationPoint]) -> MeasuredEngine:
    """Return what the window shows, where some request was answered and some iteration was timed."""
    steps = history.steps
    ended, span = sum(step.ended for step in steps), sum(step.seconds for step in steps)
    weight = sum(point.weight for point in points)
    return MeasuredEngine(
        first_token=mean_ratio([(step.first_seconds, step.firsts) for step in steps]),
        per_token=sum(point.seconds * point.weight for point in points) / weight,
        queue=_queue(history),
        latency=mean_ratio([(step.request_seconds, step.ended) for step in steps]),
        running=sum(point.decoding * point.weight for point in points) / weight,
        throughput=ended / span,
        span=span,
    )


def refuse_several_tokens(history: EngineHistory, measured: MeasuredEngine, load: EngineLoad, where: str) -> None:
    """Refuse to simulate one token an iteration where requests get several at once.

    Raises:
        Unpredictable: with what was counted.

    """
    steps, begun = history.steps, [(step.gaps, step.firsts or step.ended) for step in history.steps]
    paced, gaps = mean_ratio([(step.paced_seconds, step.paced) for step in steps]), mean_ratio(begun)
    each = measured.per_token
    if each and paced and each >= _SEVERAL * paced:
        counted = f"an iteration takes {Unit.SECONDS.show(each)}, a token {Unit.SECONDS.show(paced)}"
    elif gaps is not None and load.answer.mean - 1 >= _SEVERAL * gaps and load.answer.mean >= _FEW_TOKENS:
        counted = f"an answer has {load.answer.mean:.0f} tokens, and {gaps:.0f} times between them were counted"
    else:
        return
    raise Unpredictable(
        f"{counted}: requests get several tokens at once, as by speculative decoding, which is not simulated",
        where=where,
        hint="measure the change on a server of its own",
    )


# Of an answer: of fewer, the first one and how they were counted make up too much.
_FEW_TOKENS = 5.0


def mean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return the sum of the first over that of the second, of pairs that have both; None where that is nothing."""
    stated = [(one, other) for one, other in pairs if one is not None and other is not None]
    below = sum(other for _, other in stated)
    return sum(one for one, _ in stated) / below if below > 0 else None


def _queue(history: EngineHistory) -> float | None:
    """Return the mean wait: as a histogram of the queue has it, else waiting requests over their rate."""
    steps = history.steps
    own = mean_ratio([(step.queued_seconds, step.firsts or step.ended) for step in steps])
    if own is not None:
        return own
    waited = [(_mean(step.before, step.after) or 0.0) * step.seconds for step in steps]
    stated = any(_mean(step.before, step.after) is not None for step in steps)
    begun = sum(step.ended if step.firsts is None else step.firsts for step in steps)
    return sum(waited) / begun if stated and begun else None


def _mean(before: EngineSample | None, after: EngineSample | None) -> float | None:
    ends = [one.waiting for one in (before, after) if one is not None and one.waiting is not None]
    return fmean(ends) if ends else None


def load_of_engine(
    history: EngineHistory, measured: MeasuredEngine, where: str
) -> tuple[EngineLoad, tuple[Interval | None, Interval | None], list[str]]:
    """Return what the engine is asked for, the bounds of lengths' variability, and what it rests on."""
    stated: list[str] = []
    prompt, answer = history.prompt, history.answer
    answers = answer.mean if answer else _answer_tokens(history)
    prompts = prompt.mean if prompt else _prompt_tokens(history, answers)
    if answers is None:
        raise Unpredictable("how many tokens answers have was not read", where=where, hint=TOKENS)
    if prompts is None:
        raise Unpredictable("how long prompts are was not read", where=where, hint=PROMPTS)
    vary = (_variability(prompt, None), _variability(answer, _like_times(history, measured)))
    counts = [TokenCount(mean=max(mean, 1.0), scv=scv) for mean, (scv, _) in zip((prompts, answers), vary, strict=True)]
    clients = _clients(history)
    if clients:
        stated.append(f"{clients} clients wait for their answers: that many requests are inside at every read")
    rate = _arrivals(history, measured)
    load = EngineLoad(prompt=counts[0], answer=counts[1], rate=0.0 if clients else rate, clients=clients)
    return load, (vary[0][1], vary[1][1]), stated


def _variability(observed: ObservedSizes | None, like: float | None) -> tuple[float, Interval | None]:
    """Return how lengths vary, and bounds of it, None where it was observed; `like` is what else tells it."""
    if observed is not None and observed.scv is not None:
        return observed.scv, None
    return (_CENTRAL_SCV, _UNKNOWN_SCV) if like is None else (like, (like / 2, min(like * 1.5, 1.0)))


def _like_times(history: EngineHistory, measured: MeasuredEngine) -> float | None:
    """Return how answers' lengths vary, as requests' times do; None where waits make up much of these."""
    seen = history.latency
    waited = measured.first_token or measured.queue
    if seen is None or seen.scv is None or waited is None or waited > _SHORT_WAIT * seen.mean:
        return None
    return min(seen.scv, 1.0)


# A wait of a tenth adds at most a fifth to how times vary, which the bounds hold.
_SHORT_WAIT = 0.1


def _answer_tokens(history: EngineHistory) -> float | None:
    """Return the mean tokens of an answer: those counted, else the times between tokens and the first one of each."""
    ended = sum(step.ended for step in history.steps)
    counted = [step.answer_tokens for step in history.steps if step.answer_tokens is not None]
    if counted and ended:
        return sum(counted) / ended
    gaps = [(step.gaps, step.firsts or step.ended) for step in history.steps]
    each = mean_ratio(gaps)
    if each is not None:
        return each + 1.0
    iterations = mean_ratio([(step.iterations, step.seconds) for step in history.steps])
    running = [one.scheduled for one in (history.reads.live if history.reads else ()) if one.scheduled is not None]
    seconds = sum(step.seconds for step in history.steps)
    # Each scheduled request gets a token in each iteration.
    return fmean(running) * iterations * seconds / ended if iterations and running and ended else None


def _prompt_tokens(history: EngineHistory, answers: float | None) -> float | None:
    begun = [(step.prompt_tokens, step.ended if step.firsts is None else step.firsts) for step in history.steps]
    counted = mean_ratio(begun)
    if counted:
        return counted
    live = history.reads.live if history.reads else ()
    held = [
        (one.kv_used * one.tokens_per_block, one.scheduled)
        for one in live
        if one.kv_used and one.tokens_per_block and one.scheduled
    ]
    each = mean_ratio(held)
    if each is None or answers is None:
        return None
    # A running request is half written on average.
    return max(each - answers / 2 - fmean(one.tokens_per_block or 1.0 for one in live) / 2, 1.0)


def _clients(history: EngineHistory) -> int:
    """Return how many clients wait for their answers; 0 where requests come whatever the engine does."""
    samples = history.reads.samples if history.reads else ()
    held = [one.waiting + one.scheduled for one in samples if one.waiting is not None and one.scheduled is not None]
    if len(held) < _FEWEST_READS or fmean(held) < 2:
        return 0
    middle = fmean(held)
    spread = sum((one - middle) ** 2 for one in held) / len(held)
    # A Poisson number of requests varies as its mean does.
    return round(max(held)) if spread <= (_STEADY * middle) ** 2 and spread <= middle / 4 else 0


def _arrivals(history: EngineHistory, measured: MeasuredEngine) -> float:
    """Return requests per second that come: those answered, and those more that are inside at the end."""
    samples = history.reads.samples if history.reads else ()
    held = [one.waiting + one.scheduled for one in samples if one.waiting is not None and one.scheduled is not None]
    grown = held[-1] - held[0] if len(held) > 1 else 0.0
    return max(measured.throughput + grown / measured.span, measured.throughput / 2)


def limits_of_engine(
    evidence: WindowEvidence, on: Subject, history: EngineHistory, load: EngineLoad
) -> tuple[EngineLimits, list[str], bool]:
    """Return the engine's limits, what they rest on, and whether its slots were read."""
    stated: list[str] = []
    slots = evidence.read(ENGINE_SLOTS, on).value
    slots_read = slots is not None
    live = history.reads.live if history.reads else ()
    if slots is None and any(one.waiting for one in live):
        slots = max((one.scheduled or 0.0 for one in live), default=0.0) or None
        stated.append(f"its slots were not read: {slots:g} ran at most while others waited" if slots else "")
    blocks, tokens = evidence.read(ENGINE_KV_BLOCKS, on).value, evidence.read(ENGINE_BLOCK_TOKENS, on).value
    need = evidence.read(ENGINE_KV_NEED, on).value
    if blocks and not tokens and need:
        tokens = max((load.prompt.mean + load.answer.mean / 2) / need, 1.0)
        stated.append(f"a block of its KV cache holds {tokens:.0f} tokens, by what running requests hold")
    budgets = [one.token_budget for one in live if one.token_budget]
    kind = evidence.server_kind(on)
    config = evidence.config(on)
    policy, chunked = (kind.scheduler, kind.chunks) if kind else (GUARANTEED_NO_EVICT.name, False)
    if config is not None:
        policy = config.parameters.get("batch_scheduler_policy", "").lower() or policy
        chunked = config.parameters.get("enable_chunked_context", "").lower() == "true" or chunked
    limits = EngineLimits(
        slots=round(slots) if slots else inf,
        cache_tokens=blocks * tokens if blocks and tokens else inf,
        block_tokens=tokens or 1.0,
        token_budget=budgets[-1] if budgets else inf,
        chunked=chunked,
        policy=_POLICIES.get(policy, VLLM),
    )
    return limits, [one for one in stated if one], slots_read
