"""The value that a setting has in a configuration, and the change from one configuration to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.wire.model_config import DynamicBatching, ModelConfig, QueuePolicy

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


def _policy(config: ModelConfig) -> QueuePolicy:
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
    _POLICY: lambda config: True if _policy(config) != QueuePolicy() else None,
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
