"""Each setting that a patch can change shows as a change, in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.tuning.changes import KNOWN_PATHS, changed_settings, is_build_option
from diagnostics.wire.model_config import (
    DynamicBatching,
    InstanceGroup,
    LimiterResource,
    ModelConfig,
    QueuePolicy,
    Warmup,
)

_POLICY = "dynamic_batching.default_queue_policy"
_PLAIN = ModelConfig(
    name="safety", backend="python", max_batch_size=8, instance_groups=(InstanceGroup(kind="KIND_CPU"),)
)
_BATCHED = replace(_PLAIN, dynamic_batching=DynamicBatching())


def _group(**fields: object) -> ModelConfig:
    return replace(_PLAIN, instance_groups=(replace(_PLAIN.instance_groups[0], **fields),))  # type: ignore[arg-type]


def _batching(**fields: object) -> ModelConfig:
    return replace(_PLAIN, dynamic_batching=replace(DynamicBatching(), **fields))  # type: ignore[arg-type]


def _policy(**fields: object) -> ModelConfig:
    return _batching(queue_policy=replace(QueuePolicy(), **fields))  # type: ignore[arg-type]


_LIMITED = _group(resources=(LimiterResource(name="R1", count=4),), limiter_priority=2)
# By the path that a patch changes: before, after, and what is shown.
_CASES = {
    "max_batch_size": (_PLAIN, replace(_PLAIN, max_batch_size=16), "max_batch_size 8 → 16"),
    "instance_group.count": (_PLAIN, _group(count=2), "instance_group.count 1 → 2"),
    "instance_group.rate_limiter": (_PLAIN, _LIMITED, "instance_group.rate_limiter — → R1 4, priority 2"),
    "dynamic_batching": (_PLAIN, _BATCHED, "dynamic_batching off → on"),
    "dynamic_batching.max_queue_delay_microseconds": (
        _batching(max_queue_delay_seconds=0.001),
        _batching(max_queue_delay_seconds=0.001001),
        "dynamic_batching.max_queue_delay 1 ms → 1001 µs",
    ),
    "dynamic_batching.preferred_batch_size": (
        _BATCHED,
        _batching(preferred_batch_sizes=(4, 8)),
        "dynamic_batching.preferred_batch_size — → 4, 8",
    ),
    "dynamic_batching.preserve_ordering": (
        _BATCHED,
        _batching(preserve_ordering=True),
        "dynamic_batching.preserve_ordering off → on",
    ),
    _POLICY: (_BATCHED, _policy(max_queue_size=64), "dynamic_batching.max_queue_size 0 → 64"),
    f"{_POLICY}.max_queue_size": (_BATCHED, _policy(max_queue_size=8), "dynamic_batching.max_queue_size 0 → 8"),
    f"{_POLICY}.default_timeout_microseconds": (
        _policy(default_timeout_seconds=0.1),
        _policy(default_timeout_seconds=0.2),
        "dynamic_batching.default_timeout 100 ms → 200 ms",
    ),
    f"{_POLICY}.allow_timeout_override": (
        _BATCHED,
        _policy(allow_timeout_override=True),
        "dynamic_batching.allow_timeout_override off → on",
    ),
    f"{_POLICY}.timeout_action": (
        _BATCHED,
        _policy(timeout_action="DELAY"),
        "dynamic_batching.timeout_action REJECT → DELAY",
    ),
    "model_warmup": (_PLAIN, replace(_PLAIN, warmups=(Warmup(name="w", batch_size=8),)), "model_warmup — → batch 8"),
    "version_policy": (_PLAIN, replace(_PLAIN, version_policy="all"), "version_policy latest:1 → all"),
    "response_cache.enable": (_PLAIN, replace(_PLAIN, response_cache=True), "response_cache off → on"),
    "parameters.KEY": (_PLAIN, replace(_PLAIN, parameters={"KEY": "1"}), "parameters.KEY — → 1"),
}


def test_there_is_a_case_for_each_setting_that_a_file_can_hold() -> None:
    assert set(_CASES) == {path for path in KNOWN_PATHS if not is_build_option(path)}


@pytest.mark.parametrize("path", sorted(_CASES))
def test_a_patched_setting_shows_as_a_change_in_both_directions(path: str) -> None:
    before, after, shown = _CASES[path]
    (there,) = changed_settings("safety", before, after)
    (back,) = changed_settings("safety", after, before)
    assert str(there) == shown
    assert (back.path, back.before, back.after) == (there.path, there.after, there.before)


def test_the_same_settings_show_no_change() -> None:
    assert changed_settings("safety", _LIMITED, replace(_LIMITED)) == ()
