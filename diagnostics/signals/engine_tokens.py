"""What the engine's iterations are made of: prompts, tokens, and the time that they take."""

from __future__ import annotations

from itertools import pairwise

from diagnostics import names
from diagnostics.signals.engine import engine_signal
from diagnostics.signals.engine_samples import EngineReads, mean_over, share_of
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Read, Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.normalize import series_named
from diagnostics.window.view import METRICS, ModelView
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
    said = [tokens for read in reads if (tokens := _tokens(read)) is not None]
    budgets = [read.token_budget for read in reads if read.token_budget]
    if not reads:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    most = budgets[-1] if budgets else max(said, default=0.0)
    if not most:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return mean_over([tokens / most for tokens in said], Unit.RATIO, estimated=not budgets)


def _peak_tokens(engine: EngineReads, _: ModelView) -> Reading:
    said = [tokens for read in engine.live if (tokens := _tokens(read)) is not None]
    budgets = [read.token_budget for read in engine.live if read.token_budget]
    if not said:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(budgets[-1] if budgets else max(said), Unit.COUNT, METRICS, estimated=not budgets)


def _iteration_seconds(engine: EngineReads, _: ModelView) -> Reading:
    """Mean time of an iteration: the time between live reads ÷ the iterations between them."""
    said = [sample.iteration_seconds for sample in engine.live if sample.iteration_seconds]
    if said:
        return mean_over(said, Unit.SECONDS)
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


def _histogram_mean(*families: str) -> Read:
    """Return a reader of the mean of what a histogram observed in the span: Δsum ÷ Δcount."""

    def read(view: ModelView) -> Reading:
        for family in families:
            points = [(_own(view, at, f"{family}_sum"), _own(view, at, f"{family}_count")) for at in _ends(view)]
            if len(points) == 2 and None not in points[0] + points[1]:
                return _mean(points)
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)

    return read


def _mean(points: list[tuple[float | None, float | None]]) -> Reading:
    (first_sum, first_count), (last_sum, last_count) = points
    total, count = (last_sum or 0.0) - (first_sum or 0.0), (last_count or 0.0) - (first_count or 0.0)
    if count < 0 or total < 0:
        return Reading.unknown(Missing.RESET, Unit.SECONDS, METRICS)
    if count < _ENOUGH_TOKENS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if count else Missing.IDLE, Unit.SECONDS, METRICS)
    return Reading.of(total / count, Unit.SECONDS, METRICS, events=count)


def _ends(view: ModelView) -> list[int]:
    inside = [i for i, (at, _, _) in enumerate(view.server.snapshots) if view.start - 1e-6 <= at <= view.end + 1e-6]
    return [inside[0], inside[-1]] if len(inside) >= 2 else []


def _own(view: ModelView, position: int, name: str) -> float | None:
    """Return one family's value of the model, summed over its other labels; None when it is not there."""
    _, _, snapshot = view.server.snapshots[position]
    found = [
        value
        for series, value in series_named(snapshot, name)
        if view.model in (series.labels.get(names.MODEL), series.labels.get(names.SERVE_MODEL))
        and view.version in (None, "", series.labels.get(names.VERSION))
    ]
    return sum(found) if found else None


def _latency(name: str, doc: str, *families: str, fix: str = "") -> Signal:
    return Signal(
        name=name,
        unit=Unit.SECONDS,
        scope=Scope.MODEL,
        doc=doc,
        readers=(_histogram_mean(*families),),
        fix=fix,
    )


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
ENGINE_SECONDS = _latency(
    "engine_seconds",
    "Mean time of a request in the engine, from its arrival there to its last token.",
    names.VLLM_LATENCY,
    fix="trace requests (--trace-config mode=opentelemetry,level=TIMESTAMPS); a vLLM model tells it with the parameter "
    'REPORT_CUSTOM_METRICS "true"',
)
ENGINE_TTFT = _latency("engine_ttft", "Mean time to the first token.", *names.TIME_TO_FIRST_TOKEN)
ENGINE_TPOT = _latency("engine_tpot", "Mean time per output token after the first.", *names.TIME_PER_OUTPUT_TOKEN)
