"""A change to a model's configuration, independent of how the file that holds it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

from diagnostics.errors import UsageError
from diagnostics.units import Unit
from diagnostics.wire.model_config import DynamicBatching, InstanceGroup, ModelConfig, QueuePolicy


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
            or an option of a server without Triton, which no `config.pbtxt` states.
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


def _share(value: SettingValue) -> bool:
    try:
        return 0 < float(str(value)) <= 1
    except ValueError:
        return False


def _sizes(value: SettingValue) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_is_int(size) and 1 <= size <= _INT32_MAX for size in value)


def _flag(value: SettingValue) -> bool:
    return isinstance(value, bool)


def _warmup(value: SettingValue) -> bool:
    return isinstance(value, WarmupChange) and _sizes(value.batch_sizes)


# Triton counts the latest in 32 bits and numbers versions in 63 (`model_config.proto`, ModelVersionPolicy).
_VERSIONS = re.compile(r"all|latest:[1-9][0-9]{0,9}|specific:[0-9]{1,18}(,[0-9]{1,18})*")


def _policy(value: SettingValue) -> bool:
    return isinstance(value, str) and _VERSIONS.fullmatch(value) is not None


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
_ENGINE_LIMITS: Mapping[str, _Rule] = {
    **dict.fromkeys(("max_batch_size", "max_num_tokens", "max_input_len", "max_seq_len"), _ENGINE_LIMIT),
    **dict.fromkeys(("max_beam_width", "kv_blocks", "kv_cache_tokens"), _ENGINE_LIMIT),
    "kv_memory_fraction": _Rule(fits=_share, wants="a share of the memory, as 0.9", removable=False),
    "chunked_prefill": _Rule(fits=_flag, wants="True or False", removable=False),
}
# What servers call the same, with underscores: TensorRT-LLM, vLLM, SGLang, Dynamo.
_ENGINE_WORDS: Mapping[str, str] = {
    "max_num_seqs": "max_batch_size",
    "max_running_requests": "max_batch_size",
    "max_num_batched_tokens": "max_num_tokens",
    "chunked_prefill_size": "max_num_tokens",
    "num_gpu_blocks_override": "kv_blocks",
    "max_total_tokens": "kv_cache_tokens",
    "kv_cache_config.max_tokens": "kv_cache_tokens",
    "kv_cache_config.free_gpu_memory_fraction": "kv_memory_fraction",
    "kv_cache_free_gpu_memory_fraction": "kv_memory_fraction",
    "free_gpu_memory_fraction": "kv_memory_fraction",
    "gpu_memory_utilization": "kv_memory_fraction",
    "mem_fraction_static": "kv_memory_fraction",
    "enable_chunked_prefill": "chunked_prefill",
    "enable_chunked_context": "chunked_prefill",
}

KNOWN_PATHS = frozenset({*_RULES, "parameters.KEY", *(f"engine.{name}" for name in _ENGINE_LIMITS)})
"""Every path a setting may have; KEY stands for any parameter."""


def known_path(path: str) -> str:
    """Return the path of a setting that is spelled as a server's own option: `engine.max-num-seqs` for one."""
    head, _, rest = path.partition(".")
    word = rest.lstrip("-").replace("-", "_")
    return f"engine.{_ENGINE_WORDS.get(word, word)}" if head == "engine" else path


def _rule(path: str) -> _Rule | None:
    head, _, rest = path.partition(".")
    if head == "parameters" and rest and rest.isprintable():
        return _PARAMETER
    if head == "engine":
        return _ENGINE_LIMITS.get(rest)
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


_MICROSECONDS = 1e6
_BATCHING = "dynamic_batching"
_POLICY = f"{_BATCHING}.default_queue_policy"
# As settings_diff calls them, which shows times with their unit and no protobuf message that holds nothing else.
_SHOWN_AS = {
    f"{_BATCHING}.max_queue_delay_microseconds": f"{_BATCHING}.max_queue_delay",
    f"{_POLICY}.max_queue_size": f"{_BATCHING}.max_queue_size",
    f"{_POLICY}.default_timeout_microseconds": f"{_BATCHING}.default_timeout",
    f"{_POLICY}.allow_timeout_override": f"{_BATCHING}.allow_timeout_override",
    f"{_POLICY}.timeout_action": f"{_BATCHING}.timeout_action",
}


def current(config: ModelConfig, path: str) -> SettingValue:
    """Return a setting's value in its field's own unit; None where it is absent, or no single value says it.

    Instance groups of different counts have no single count.
    """
    head, _, rest = path.partition(".")
    if head == "parameters":
        return config.parameters.get(rest)
    if path in _OF_MODEL:
        return _OF_MODEL[path](config)
    if config.dynamic_batching is None or path not in _OF_BATCHER:
        return None
    return _OF_BATCHER[path](config.dynamic_batching)


def change_between(model: str, before: ModelConfig, after: ModelConfig) -> ConfigChange | None:
    """Return the settings of scheduling by which a configuration became another; None where none differs."""
    paths = [path for path in (*_OF_SCHEDULING, *_OF_BATCHER) if current(before, path) != current(after, path)]
    if before.dynamic_batching is not None and after.dynamic_batching is None:
        paths = [path for path in paths if path not in _OF_BATCHER]  # they go with it
    settings = [Setting(path=path, value=current(after, path)) for path in paths if _single(after, path)]
    return ConfigChange(model=model, settings=tuple(settings)) if settings else None


def shown_paths(change: ConfigChange) -> frozenset[str]:
    """Return the paths of a change as `settings_diff.changed_settings` spells them."""
    return frozenset(_SHOWN_AS.get(setting.path, setting.path) for setting in change.settings)


def _single(config: ModelConfig, path: str) -> bool:
    return path != "instance_group.count" or current(config, path) is not None


def _count(config: ModelConfig) -> int | None:
    counts = {group.count for group in config.instance_groups if not group.passive}
    return counts.pop() if len(counts) == 1 else None


def _rate_limiter(config: ModelConfig) -> bool | None:
    return True if any(group.resources or group.limiter_priority for group in config.instance_groups) else None


def _current_policy(config: ModelConfig) -> QueuePolicy:
    return config.dynamic_batching.queue_policy if config.dynamic_batching is not None else QueuePolicy()


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)


_OF_SCHEDULING: Mapping[str, Callable[[ModelConfig], SettingValue]] = {
    "max_batch_size": lambda config: config.max_batch_size,
    "instance_group.count": _count,
    _BATCHING: lambda config: True if config.dynamic_batching is not None else None,
}
_OF_MODEL: Mapping[str, Callable[[ModelConfig], SettingValue]] = {
    **_OF_SCHEDULING,
    "instance_group.rate_limiter": _rate_limiter,
    _POLICY: lambda config: True if _current_policy(config) != QueuePolicy() else None,
    "version_policy": lambda config: config.version_policy,
    "response_cache.enable": lambda config: config.response_cache,
}
_OF_BATCHER: Mapping[str, Callable[[DynamicBatching], SettingValue]] = {
    f"{_BATCHING}.max_queue_delay_microseconds": lambda batching: _microseconds(batching.max_queue_delay_seconds),
    f"{_BATCHING}.preferred_batch_size": lambda batching: batching.preferred_batch_sizes or None,
    f"{_BATCHING}.preserve_ordering": lambda batching: batching.preserve_ordering,
    f"{_POLICY}.max_queue_size": lambda batching: batching.queue_policy.max_queue_size,
    f"{_POLICY}.default_timeout_microseconds": lambda batching: _microseconds(
        batching.queue_policy.default_timeout_seconds
    ),
    f"{_POLICY}.allow_timeout_override": lambda batching: batching.queue_policy.allow_timeout_override,
    f"{_POLICY}.timeout_action": lambda batching: batching.queue_policy.timeout_action,
}


ABSENT = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One setting of one model, before and after, as text; a dash where it was not there."""

    model: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path} {self.before} → {self.after}"


def changed_settings(model: str, before: ModelConfig | None, after: ModelConfig | None) -> tuple[SettingChange, ...]:
    """Return the settings that differ, by path; none when a configuration was not read on either side."""
    if before is None or after is None:
        return ()
    then, now = dict(_settings(before)), dict(_settings(after))
    if (before.dynamic_batching is None) != (after.dynamic_batching is None):
        # What the batcher is set to comes and goes with it: that it is there is the change.
        then, now = (_without_batcher(settings) for settings in (then, now))
    paths = sorted({*then, *now})
    found = ((path, then.get(path, ABSENT), now.get(path, ABSENT)) for path in paths)
    return tuple(SettingChange(model=model, path=path, before=a, after=b) for path, a, b in found if a != b)


def _without_batcher(settings: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in settings.items() if not path.startswith("dynamic_batching.")}


def _settings(config: ModelConfig) -> Iterator[tuple[str, str]]:
    yield "backend", config.backend or config.platform
    yield "max_batch_size", str(config.max_batch_size)
    yield from _instances(config)
    yield "dynamic_batching", _on(config.dynamic_batching is not None)
    if config.dynamic_batching is not None:
        yield from _batching(config.dynamic_batching)
    yield "sequence_batching", _on(config.sequence_batching)
    yield "ensemble_scheduling", ", ".join(step.model for step in config.ensemble_steps) or ABSENT
    yield "model_warmup", ", ".join(f"batch {max(sample.batch_size, 1)}" for sample in config.warmups) or ABSENT
    yield "decoupled", _on(config.decoupled)
    yield "version_policy", config.version_policy
    yield "response_cache", _on(config.response_cache)
    yield from ((f"parameters.{key}", value) for key, value in config.parameters.items())


def _instances(config: ModelConfig) -> Iterator[tuple[str, str]]:
    counts: Counter[str] = Counter()
    for group in config.instance_groups:
        where = f" on GPU {', '.join(map(str, group.gpus))}" if group.gpus else ""
        passive = ", passive" if group.passive else ""
        counts[f"{group.kind}{where}{passive}"] += group.count
    if counts:
        yield "instance_group.count", ", ".join(str(count) for _, count in sorted(counts.items()))
        yield "instance_group.kind", ", ".join(sorted(counts))
    limits = sorted(filter(None, map(_limits, config.instance_groups)))
    yield "instance_group.rate_limiter", "; ".join(limits) or ABSENT


def _limits(group: InstanceGroup) -> str:
    """Return what the rate limiter holds a group to; empty where it holds it to nothing."""
    resources = [f"{one.name} {one.count}{' global' if one.everywhere else ''}" for one in group.resources]
    priority = [f"priority {group.limiter_priority}"] if group.limiter_priority else []
    return ", ".join([*resources, *priority])


def _batching(batching: DynamicBatching) -> Iterator[tuple[str, str]]:
    policy, base = batching.queue_policy, "dynamic_batching"
    yield f"{base}.max_queue_delay", _time(batching.max_queue_delay_seconds)
    yield f"{base}.preferred_batch_size", ", ".join(map(str, batching.preferred_batch_sizes)) or ABSENT
    yield f"{base}.preserve_ordering", _on(batching.preserve_ordering)
    yield f"{base}.priority_levels", str(batching.priority_levels)
    yield f"{base}.max_queue_size", str(policy.max_queue_size)
    yield f"{base}.default_timeout", _time(policy.default_timeout_seconds)
    yield f"{base}.allow_timeout_override", _on(policy.allow_timeout_override)
    yield f"{base}.timeout_action", policy.timeout_action


def _time(seconds: float) -> str:
    """Return a time that reads the same only where it is the same: in microseconds where rounding would hide some."""
    microseconds = round(seconds * _MICROSECONDS)
    rounded = round(float(f"{microseconds:.3g}"))
    return Unit.SECONDS.show(seconds) if microseconds == rounded else f"{microseconds} µs"


def _on(value: bool) -> str:
    return "on" if value else "off"
