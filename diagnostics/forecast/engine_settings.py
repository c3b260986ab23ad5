"""What an engine's limits and parameters do to its simulated iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

from diagnostics.errors import UsageError
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.simulation.scenario import EngineModel, Model
from diagnostics.wire.model_config import ModelConfig

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
        return with_engine(model, f"parameters.{key}", lambda engine: _with_cache(engine, factor))
    raise Unpredictable(f"what the parameter {key} does is the model's own", where=model.name, hint=MEASURE)


def _with_cache(engine: EngineModel, factor: float) -> EngineModel:
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
