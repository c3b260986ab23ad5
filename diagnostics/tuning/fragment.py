"""The text of a configuration in effect, for fields that a change touches, where the file is not at hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from diagnostics.tuning.pbtxt import quote
from diagnostics.wire.model_config import DynamicBatching, Input, InstanceGroup, LimiterResource, ModelConfig


def fragment(effective: ModelConfig, paths: Sequence[str]) -> str:
    """Return `config.pbtxt` text of the fields at these paths, without what the server has made up itself.

    The server completes a configuration: names of groups and a `preferred_batch_size` equal to
    `max_batch_size` are its own (Triton core, `model_config_utils.cc`).
    """
    heads = {path.partition(".")[0] for path in paths}
    lines = [writer(effective) for name, writer in _WRITERS.items() if name in heads]
    keys = [path.partition(".")[2] for path in paths if path.startswith("parameters.")]
    lines += [_parameter(effective, key) for key in keys]
    return "".join(f"{line}\n" for line in lines if line)


def other_scheduler(effective: ModelConfig) -> str:
    """Return the block of an ensemble or a sequence batcher, empty for other models."""
    if effective.ensemble_steps:
        return "ensemble_scheduling { }\n"
    return "sequence_batching { }\n" if effective.sequence_batching else ""


def context(effective: ModelConfig, *, warming: bool) -> str:
    """Return text that a change has to see and does not touch: the scheduler, and what warm-up samples are made of.

    `warming` says whether the change adds warm-up samples; those that are there are known without their inputs.
    """
    return other_scheduler(effective) + (_inputs(effective) + _warmups(effective) if warming else "")


def _inputs(effective: ModelConfig) -> str:
    return "".join(f"input [{_input(one)}]\n" for one in effective.inputs if re.fullmatch(r"TYPE_\w+", one.data_type))


def _input(one: Input) -> str:
    optional = " optional: true" if one.optional else ""
    dims = ", ".join(map(str, one.dims))
    return f"{{ name: {quote(one.name)} data_type: {one.data_type} dims: [ {dims} ]{optional} }}"


def _max_batch_size(effective: ModelConfig) -> str:
    return f"max_batch_size: {effective.max_batch_size}"


def _groups(effective: ModelConfig) -> str:
    groups = ", ".join(_group(group, effective.name) for group in effective.instance_groups)
    return f"instance_group [{groups}]" if groups else ""


def _group(group: InstanceGroup, model: str) -> str:
    parts = [f"count: {group.count}", f"kind: {group.kind}"]
    if group.name and not group.name.startswith(model):
        parts.insert(0, f"name: {quote(group.name)}")
    if group.gpus:
        parts.append(f"gpus: [ {', '.join(map(str, group.gpus))} ]")
    if group.passive:
        parts.append("passive: true")
    if group.resources or group.limiter_priority:
        parts.append(_rate_limiter(group))
    return f"{{ {' '.join(parts)} }}"


def _rate_limiter(group: InstanceGroup) -> str:
    parts = [f"resources [ {', '.join(map(_resource, group.resources))} ]"] if group.resources else []
    if group.limiter_priority:
        parts.append(f"priority: {group.limiter_priority}")
    return f"rate_limiter {{ {' '.join(parts)} }}"


def _resource(one: LimiterResource) -> str:
    return f"{{ name: {quote(one.name)} count: {one.count}{' global: true' if one.everywhere else ''} }}"


def _dynamic_batching(effective: ModelConfig) -> str:
    batching = effective.dynamic_batching
    if batching is None:
        return ""
    parts = " ".join((*_batching_parts(batching, effective.max_batch_size), *_policy_parts(batching)))
    return f"dynamic_batching {{ {parts} }}" if parts else "dynamic_batching { }"


def _batching_parts(batching: DynamicBatching, max_batch_size: int) -> list[str]:
    parts = []
    if batching.preferred_batch_sizes and batching.preferred_batch_sizes != (max_batch_size,):
        parts.append(f"preferred_batch_size: [ {', '.join(map(str, batching.preferred_batch_sizes))} ]")
    if batching.max_queue_delay_seconds:
        parts.append(f"max_queue_delay_microseconds: {round(batching.max_queue_delay_seconds * 1e6)}")
    if batching.preserve_ordering:
        parts.append("preserve_ordering: true")
    if batching.priority_levels:
        parts.append(f"priority_levels: {batching.priority_levels}")
    return parts


def _policy_parts(batching: DynamicBatching) -> list[str]:
    policy = batching.queue_policy
    parts = []
    if policy.timeout_action == "DELAY":
        parts.append("timeout_action: DELAY")
    if policy.default_timeout_seconds:
        parts.append(f"default_timeout_microseconds: {round(policy.default_timeout_seconds * 1e6)}")
    if policy.allow_timeout_override:
        parts.append("allow_timeout_override: true")
    if policy.max_queue_size:
        parts.append(f"max_queue_size: {policy.max_queue_size}")
    return [f"default_queue_policy {{ {' '.join(parts)} }}"] if parts else []


def _version_policy(effective: ModelConfig) -> str:
    kind, _, numbers = effective.version_policy.partition(":")
    inner = {"all": "all { }", "specific": f"specific {{ versions: [ {numbers} ] }}"}
    return f"version_policy {{ {inner.get(kind, f'latest {{ num_versions: {numbers or 1} }}')} }}"


def _response_cache(effective: ModelConfig) -> str:
    return "response_cache { enable: true }" if effective.response_cache else ""


def _parameter(effective: ModelConfig, key: str) -> str:
    if key not in effective.parameters:
        return ""
    return f"parameters {{ key: {quote(key)} value {{ string_value: {quote(effective.parameters[key])} }} }}"


def _warmups(effective: ModelConfig) -> str:
    samples = ", ".join(f"{{ name: {quote(w.name)} batch_size: {w.batch_size} }}" for w in effective.warmups)
    return f"model_warmup [{samples}]\n" if samples else ""


_WRITERS: Mapping[str, Callable[[ModelConfig], str]] = {
    "max_batch_size": _max_batch_size,
    "instance_group": _groups,
    "dynamic_batching": _dynamic_batching,
    "version_policy": _version_policy,
    "response_cache": _response_cache,
    "model_warmup": lambda effective: _warmups(effective).rstrip(),
}
