"""A change to a model's configuration, independent of how the file that holds it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

from diagnostics.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupChange:
    """Executions with zero data before a model serves, one per batch size.

    Attributes:
        batch_sizes: the sizes to cover, each at least 1; 1 also stands for a model without a batch dimension.

    """

    batch_sizes: tuple[int, ...] = (1,)


SettingValue = int | float | str | bool | tuple[int, ...] | WarmupChange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field of a model's configuration and the value it shall have.

    Attributes:
        path: field names joined by dots, as in `dynamic_batching.max_queue_delay_microseconds`;
            `parameters.KEY` is a backend parameter; `engine.NAME` a limit built into a TensorRT engine,
            which no file states.
        value: what the field shall be; None removes it. `dynamic_batching` itself takes True (the block
            exists). `version_policy` takes `all`, `latest:2` or `specific:1,3`. Times are in the field's
            own unit.

    """

    path: str
    value: SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Settings of one model that are changed together.

    Raises:
        UsageError: a path is unknown, a value does not fit its path, or a path is given twice.

    """

    model: str
    settings: tuple[Setting, ...]

    def __post_init__(self) -> None:
        paths = [setting.path for setting in self.settings]
        for setting in self.settings:
            _validate(setting, self.model)
            if paths.count(setting.path) > 1:
                raise UsageError(f"{setting.path} is set twice", where=self.model, hint="give each setting once")


class BlastRadius(StrEnum):
    """What applying a change does to the running server."""

    IN_PLACE = "in-place"
    RELOAD = "reload"
    ENGINE_REBUILD = "engine-rebuild"


ENGINE_BACKENDS = frozenset({"tensorrt", "tensorrt_plan", "tensorrtllm"})
_IN_PLACE = ("instance_group.", "version_policy")


def blast_radius(change: ConfigChange, *, backend: str = "") -> BlastRadius:
    """Return the heaviest effect among the change's settings.

    `instance_group` and `version_policy` alone are applied in place; any other field of `config.pbtxt`
    reloads the model, with the old and the new copy in memory at once; limits of an engine need a new
    engine. `backend` is the model's backend or platform: an engine's `max_batch_size` is built into it.
    Source: Triton core, `model_lifecycle.cc` and `model_repository_manager.cc`; TensorRT-LLM's build options.
    """
    paths = [setting.path for setting in change.settings]
    if any(path.startswith("engine.") for path in paths):
        return BlastRadius.ENGINE_REBUILD
    if backend in ENGINE_BACKENDS and "max_batch_size" in paths:
        return BlastRadius.ENGINE_REBUILD
    return BlastRadius.IN_PLACE if all(path.startswith(_IN_PLACE) for path in paths) else BlastRadius.RELOAD


def is_build_option(path: str) -> bool:
    """Say whether a setting belongs to an engine's build, so that no `config.pbtxt` can hold it."""
    return path.startswith("engine.")


def _is_int(value: SettingValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


_INT32_MAX, _UINT32_MAX, _UINT64_MAX = 2**31 - 1, 2**32 - 1, 2**64 - 1


def _integer(low: int, high: int) -> Callable[[SettingValue], bool]:
    return lambda value: _is_int(value) and low <= value <= high


def _sizes(value: SettingValue) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_is_int(size) and 1 <= size <= _INT32_MAX for size in value)


def _flag(value: SettingValue) -> bool:
    return isinstance(value, bool)


def _warmup(value: SettingValue) -> bool:
    return isinstance(value, WarmupChange) and _sizes(value.batch_sizes)


def _policy(value: SettingValue) -> bool:
    return isinstance(value, str) and re.fullmatch(r"all|latest:[1-9]\d*|specific:\d+(,\d+)*", value) is not None


def _text(value: SettingValue) -> bool:
    return isinstance(value, str) and "\0" not in value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    fits: Callable[[SettingValue], bool]
    wants: str
    removable: bool = True


_QUEUE_POLICY = "dynamic_batching.default_queue_policy"
_RULES: Mapping[str, _Rule] = {
    "max_batch_size": _Rule(fits=_integer(0, _INT32_MAX), wants="a whole number from 0", removable=False),
    "instance_group.count": _Rule(fits=_integer(1, 1024), wants="a whole number from 1 to 1024", removable=False),
    "instance_group.rate_limiter": _Rule(fits=lambda value: value is None, wants="None (removed)"),
    "dynamic_batching": _Rule(fits=lambda value: value is True, wants="True (present) or None (removed)"),
    "dynamic_batching.max_queue_delay_microseconds": _Rule(
        fits=_integer(0, _UINT64_MAX), wants="whole microseconds from 0"
    ),
    "dynamic_batching.preferred_batch_size": _Rule(fits=_sizes, wants="batch sizes from 1"),
    "dynamic_batching.preserve_ordering": _Rule(fits=_flag, wants="True or False"),
    _QUEUE_POLICY: _Rule(fits=lambda value: value is None, wants="None (removed)"),
    f"{_QUEUE_POLICY}.max_queue_size": _Rule(fits=_integer(0, _UINT32_MAX), wants="a whole number from 0"),
    f"{_QUEUE_POLICY}.default_timeout_microseconds": _Rule(
        fits=_integer(0, _UINT64_MAX), wants="whole microseconds from 0"
    ),
    f"{_QUEUE_POLICY}.allow_timeout_override": _Rule(fits=_flag, wants="True or False"),
    f"{_QUEUE_POLICY}.timeout_action": _Rule(fits=lambda value: value in ("REJECT", "DELAY"), wants="REJECT or DELAY"),
    "model_warmup": _Rule(fits=_warmup, wants="a Warmup with batch sizes from 1"),
    "version_policy": _Rule(fits=_policy, wants="all, latest:N or specific:N,N"),
    "response_cache.enable": _Rule(fits=_flag, wants="True or False"),
}
_PARAMETER = _Rule(fits=_text, wants="text")
_ENGINE_LIMIT = _Rule(fits=_integer(1, _INT32_MAX), wants="a whole number from 1", removable=False)
_ENGINE_LIMITS = ("max_batch_size", "max_num_tokens", "max_input_len", "max_seq_len", "max_beam_width")

KNOWN_PATHS = frozenset({*_RULES, "parameters.KEY", *(f"engine.{name}" for name in _ENGINE_LIMITS)})
"""Every path a setting may have; KEY stands for any parameter."""


def _rule(path: str) -> _Rule | None:
    head, _, rest = path.partition(".")
    if head == "parameters" and rest and rest.isprintable():
        return _PARAMETER
    if head == "engine" and rest in _ENGINE_LIMITS:
        return _ENGINE_LIMIT
    return _RULES.get(path)


def _validate(setting: Setting, model: str) -> None:
    rule = _rule(setting.path)
    if rule is None:
        known = ", ".join((*_RULES, "parameters.KEY", *(f"engine.{name}" for name in _ENGINE_LIMITS)))
        raise UsageError(f"no setting {setting.path!r}", where=model, hint=f"settings are {known}")
    if setting.value is None and rule.removable:
        return
    if not rule.fits(setting.value):
        raise UsageError(f"{setting.path} cannot be {setting.value!r}", where=model, hint=f"give {rule.wants}")
