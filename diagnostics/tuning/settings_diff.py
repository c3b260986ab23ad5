"""What differs between two effective configurations of a model, in the words of config.pbtxt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diagnostics.units import Unit
from diagnostics.wire.model_config import DynamicBatching, InstanceGroup, ModelConfig

ABSENT = "—"
_MICROSECONDS = 1e6


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
