"""An in-flight-batching engine's iterations, from its gauges and the time that requests spend in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, inf, nan, sqrt
from statistics import fmean

from diagnostics.errors import UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.fitted import Unpredictable, drift
from diagnostics.signals.engine import (
    ENGINE_BLOCK_TOKENS,
    ENGINE_KV_BLOCKS,
    ENGINE_KV_NEED,
    ENGINE_SLOTS,
    ENGINE_STATIC_BATCHING,
    ENGINE_WAIT_SECONDS,
    ENGINE_WORK_SECONDS,
)
from diagnostics.signals.engine_iterations import (
    ENGINE_AT_WORK,
    ENGINE_ITERATION_RATE,
    ENGINE_ITERATION_SECONDS,
    ENGINE_JOINING_SECONDS,
)
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.simulation.observing import ModelOutcome
from diagnostics.tuning.simulation.scenario import EngineModel, Model
from diagnostics.wire.model_config import ModelConfig

Interval = tuple[float, float]

# Where it could not be seen what joining costs: from nothing to half of all iterations' time.
_MOST_JOINING = 0.5
# The part of a decoding iteration that grows with its requests. Reading the weights, which all requests share, bounds
# decoding until they are many (Pope et al. 2022, "Efficiently scaling transformer inference"): a small part, up to the
# most that few requests leave.
CROWDING, MOST_CROWDING = 0.1, 0.4


# How much the time of an iteration with as many requests differs from one start of a server to the next, as a standard
# deviation: the eleven recordings of fixtures/engine of which others have the same deployment, each from a server of
# its own. Without any one of them it is 10 to 15 %; where the load alone differs, 4 to 7 %.
BETWEEN_SERVERS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEngine:
    """An engine and what its fit rests on.

    Attributes:
        engine: its slots and iterations.
        joining: bounds of the seconds that a joining request adds to an iteration.
        joins: requests that join per iteration.
        running: requests in an iteration.
        at_work: share of time in which it iterates.
        work: mean time of a request from its slot to its end, the wait for the iteration to join included.
        seconds, scv: the time of its requests, and its variability, that it was fitted to.
        error: standard deviation of an iteration's mean time from one window to another, as a share of it.
        assumptions: what to say of it.

    """

    engine: EngineModel
    joining: Interval
    joins: float
    running: float
    at_work: float
    work: float
    seconds: float
    scv: float | None
    error: float
    assumptions: tuple[str, ...]


def fit_engine(
    evidence: Evidence, on: Subject, seconds: float, scv: float | None, at_work: float | None = None
) -> FittedEngine | None:
    """Return the iterations of an engine; None where its gauges do not tell its slots and how often it iterates.

    With `f` iterations per second in a share `p` of the time, one takes `p / f`; a request that joins waits for half of
    the running one, and its number of iterations fills what is left of its time. `seconds` is the mean time of a
    request in the engine, waiting for a slot included, `scv` its variability (None where unknown); `at_work` is given
    where `p` is known better than from reads.
    """
    slots, frequency = evidence.read(ENGINE_SLOTS, on).value, evidence.read(ENGINE_ITERATION_RATE, on).value
    rate = evidence.read(REQUEST_RATE, on).value
    if not slots or not frequency or not rate or seconds <= 0:
        return None
    work = seconds * _working(evidence, on)
    at_work = at_work or _at_work(evidence, on, rate * work)
    iteration = _iteration(evidence, on, at_work / frequency)
    joins = min(rate / frequency, slots)
    joining, bounds, stated = _joining(evidence, on, iteration, joins)
    running = max(rate * work / at_work, 1.0)
    decoding = max(iteration - joins * joining, iteration / 100)
    waited = at_work * iteration / 2 + joining * (1 - min(joins, 1.0))
    engine = EngineModel(
        slots=round(slots),
        prefill_seconds=joining,
        iteration_seconds=decoding * (1 - CROWDING),
        iteration_seconds_per_request=decoding * CROWDING / running,
        iterations=max((work - waited) / iteration, 1.0),
        iterations_scv=_own_scv(scv, rate, work, joining),
        continuous=not evidence.read(ENGINE_STATIC_BATCHING, on).value,
    )
    return FittedEngine(
        engine=_with_cache(evidence, on, engine),
        joining=bounds,
        joins=joins,
        running=running,
        at_work=at_work,
        work=work,
        seconds=seconds,
        scv=scv,
        error=engine_drift(evidence, on),
        assumptions=(stated,),
    )


def engine_drift(evidence: Evidence, on: Subject) -> float:
    """Return the standard deviation of an iteration's time from one window to another, as a share of it.

    It is the `drift` within the window, but at least what another server of the same engine differs by. That is so for
    both windows, the one that a forecast rests on and the one that it is for.
    """
    return max(drift(evidence, on, ENGINE_ITERATION_SECONDS), sqrt(2) * BETWEEN_SERVERS)


def _working(evidence: Evidence, on: Subject) -> float:
    """Return the part of a request's time in the engine for which it has a slot: those scheduled of those inside."""
    wait, work = evidence.read(ENGINE_WAIT_SECONDS, on).value, evidence.read(ENGINE_WORK_SECONDS, on).value
    return work / (wait + work) if wait and work else 1.0


def settled(fitted: FittedEngine, outcome: ModelOutcome) -> FittedEngine:
    """Return the engine with as many iterations per request as make its simulated requests take the measured time."""
    if not outcome.service or not outcome.waits:
        return fitted
    engine = fitted.engine
    iteration = engine.iteration_seconds + engine.iteration_seconds_per_request * fitted.running
    boundary = min(fmean(outcome.waits), iteration / 2)
    factor = fitted.work / max(fmean(outcome.service) + boundary, 1e-9)
    return replace(fitted, engine=replace(engine, iterations=max(engine.iterations * factor, 1.0)))


def _at_work(evidence: Evidence, on: Subject, running: float) -> float:
    """Return the share of time in which the engine iterates: as read, else that of independent requests."""
    read = evidence.read(ENGINE_AT_WORK, on)
    independent = 1 - exp(-running)
    if read.value is None or read.low is None or read.high is None:
        return independent
    # A few reads show little: within what they allow, independent arrivals are the better guess.
    return min(max(independent, read.low), read.high) or independent


def _iteration(evidence: Evidence, on: Subject, seconds: float) -> float:
    read = evidence.read(ENGINE_ITERATION_SECONDS, on)
    if read.value is None:
        return seconds
    return min(seconds, read.value) if read.estimated else read.value


def _joining(evidence: Evidence, on: Subject, iteration: float, joins: float) -> tuple[float, Interval, str]:
    """Return what a joining request adds, its bounds, and what that rests on."""
    read, most = evidence.read(ENGINE_JOINING_SECONDS, on), _MOST_JOINING * iteration / joins
    if read.value is None or read.low is None or read.high is None:
        stated = f"{on.model}'s iterations take as long at other loads: what joining requests add could not be seen"
        return 0.0, (0.0, most), stated
    value = min(read.value, most)
    stated = f"{on.model}'s iterations lengthen with the requests that join, as between the reads of its gauges"
    return value, (min(read.low, value), max(min(read.high, most), value)), stated


def _own_scv(scv: float | None, rate: float, seconds: float, joining: float) -> float:
    """Return the variability that is the requests' own: what other requests' joining does not make."""
    return max((scv or 0.0) - rate * joining**2 / seconds, 0.0)


def _with_cache(evidence: Evidence, on: Subject, engine: EngineModel) -> EngineModel:
    """Return the engine with what its cache holds, in blocks where it does not say how many tokens one has."""
    blocks, need = evidence.read(ENGINE_KV_BLOCKS, on).value, evidence.read(ENGINE_KV_NEED, on).value
    tokens = evidence.read(ENGINE_BLOCK_TOKENS, on).value
    if not blocks or not need:
        return engine
    per_block = tokens or 1.0
    return replace(engine, cache_tokens=blocks * per_block, tokens_per_request=max(need, 1.0) * per_block)


MEASURE = "measure it on a server of its own"
_FRACTION = "kv_cache_free_gpu_mem_fraction"
_DEFAULT_FRACTION = 0.9
_CACHE_TOKENS = ("max_tokens_in_paged_kv_cache", "kv_cache_config.max_tokens")
# A parameter that names another way of batching inside: the engine's model would be another one.
_STATIC = "gpt_model_type"


def with_engine(model: Model, path: str, make: Callable[[EngineModel], EngineModel]) -> tuple[Model, list[str]]:
    """Return the model with its engine changed, and what to say of it.

    Raises:
        Unpredictable: its iterations were not read.

    """
    if model.engine is None:
        raise Unpredictable(f"{path} is an engine's, whose iterations were not read", where=model.name, hint=_GAUGES)
    return replace(model, engine=make(model.engine)), [
        f"{model.name}'s iterations take no longer with more requests in them than was seen"
    ]


_GAUGES = "read the metrics port, where the engine exports its gauges, in a window in which it works"


def with_parameter(model: Model, config: ModelConfig | None, key: str, value: SettingValue) -> tuple[Model, list[str]]:
    """Return the model with one of its parameters, and what to say of it; `config` is the one in effect.

    Raises:
        UsageError: the value is none of the parameter's.
        Unpredictable: what the parameter does, or the engine's iterations, were not read.

    """
    if key == _STATIC:
        static = str(value).upper() == "V1"
        return with_engine(model, f"parameters.{key}", lambda engine: replace(engine, continuous=not static))
    if key in _CACHE_TOKENS and value is None:
        raise Unpredictable("how much the cache holds without a limit was not read", where=model.name, hint=MEASURE)
    if key in _CACHE_TOKENS:
        tokens = _positive(model, key, value)
        return with_engine(model, f"parameters.{key}", lambda engine: replace(engine, cache_tokens=tokens))
    if key == _FRACTION:
        factor = _share(model, value) / _share_now(config.parameters.get(_FRACTION, "") if config else "")
        return with_engine(model, f"parameters.{key}", lambda engine: _with_cache_tokens(engine, factor))
    raise Unpredictable(f"what the parameter {key} does is the model's own", where=model.name, hint=MEASURE)


def _with_cache_tokens(engine: EngineModel, factor: float) -> EngineModel:
    return engine if engine.cache_tokens is None else replace(engine, cache_tokens=engine.cache_tokens * factor)


def _share(model: Model, value: SettingValue) -> float:
    """Return the part of the free memory that the cache gets; removed, TensorRT-LLM's own default."""
    share = _DEFAULT_FRACTION if value is None else _positive(model, _FRACTION, value)
    if share > 1:
        raise UsageError(f"{_FRACTION} cannot be {value!r}", where=model.name, hint="give a share, at most 1")
    return share


def _share_now(text: str) -> float:
    """Return the part that is configured; TensorRT-LLM takes what it cannot read, as an unfilled template, for none."""
    try:
        share = float(text)
    except ValueError:
        return _DEFAULT_FRACTION
    return share if 0 < share <= 1 else _DEFAULT_FRACTION


def _positive(model: Model, key: str, value: SettingValue) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = nan
    if not 0 < number < inf:
        raise UsageError(f"{key} cannot be {value!r}", where=model.name, hint="give a number above 0")
    return number
