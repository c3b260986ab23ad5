"""What reading the prompts of others costs the requests that an engine runs."""

from __future__ import annotations

from diagnostics.signals.engine import ENGINE_WORK_SECONDS, engine_signal
from diagnostics.signals.engine_iterations import ENGINE_JOINING_SECONDS
from diagnostics.signals.engine_samples import EngineReads, mean_over, over_engine
from diagnostics.signals.engine_tokens import ENGINE_ITERATION_SECONDS, prefills
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView

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
