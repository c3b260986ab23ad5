"""What a change may say, and what applying it does to a server."""

from __future__ import annotations

import json

import pytest

from diagnostics.errors import UsageError
from diagnostics.tuning.changes import (
    BlastRadius,
    ConfigChange,
    Setting,
    SettingValue,
    WarmupChange,
    blast_radius,
    current,
)
from diagnostics.wire.model_config import parse_model_config
from tests.builders import model_config


def change(*settings: tuple[str, SettingValue]) -> ConfigChange:
    return ConfigChange(model="safety", settings=tuple(Setting(path=path, value=value) for path, value in settings))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance_group.count", 3),
        ("max_batch_size", 0),
        ("dynamic_batching", True),
        ("dynamic_batching", None),
        ("dynamic_batching.preferred_batch_size", (4, 8)),
        ("dynamic_batching.max_queue_delay_microseconds", 0),
        ("dynamic_batching.default_queue_policy.max_queue_size", 64),
        ("dynamic_batching.default_queue_policy.timeout_action", "DELAY"),
        ("model_warmup", WarmupChange(batch_sizes=(1, 8))),
        ("version_policy", "specific:1,3"),
        ("response_cache.enable", True),
        ("parameters.kv_cache_free_gpu_mem_fraction", "0.8"),
        ("engine.max_num_tokens", 8192),
    ],
)
def test_a_setting_of_the_configuration_is_accepted(path: str, value: SettingValue) -> None:
    assert change((path, value)).settings[0].value == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance_group.count", 0),
        ("instance_group.count", True),
        ("instance_group.count", None),
        ("instance_group.count", 2.0),
        ("max_batch_size", -1),
        ("max_batch_size", 2**31),
        ("dynamic_batching", False),
        ("dynamic_batching.preferred_batch_size", ()),
        ("dynamic_batching.preferred_batch_size", (0,)),
        ("dynamic_batching.max_queue_delay_microseconds", -1),
        ("dynamic_batching.default_queue_policy.timeout_action", "IGNORE"),
        ("model_warmup", WarmupChange(batch_sizes=())),
        ("version_policy", "latest:0"),
        ("version_policy", "newest"),
        ("engine.max_num_tokens", None),
        ("parameters.x", 3),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_would(path: str, value: SettingValue) -> None:
    with pytest.raises(UsageError, match=r"safety: .* cannot be .*; give "):
        change((path, value))


@pytest.mark.parametrize("path", ["", "instance_group", "engine.colour", "parameters.", "dynamic_batching.delay"])
def test_an_unknown_setting_is_refused_with_the_known_ones(path: str) -> None:
    with pytest.raises(UsageError, match=r"settings are max_batch_size, instance_group\.count"):
        change((path, 1))


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        change(("max_batch_size", 4), ("max_batch_size", 8))


@pytest.mark.parametrize(
    ("settings", "radius"),
    [
        ([("instance_group.count", 3)], BlastRadius.IN_PLACE),
        ([("instance_group.count", 3), ("version_policy", "all")], BlastRadius.IN_PLACE),
        ([("instance_group.count", 3), ("max_batch_size", 8)], BlastRadius.RELOAD),
        ([("dynamic_batching", True)], BlastRadius.RELOAD),
        ([("parameters.batch_scheduler_policy", "max_utilization")], BlastRadius.RELOAD),
        ([("parameters.x", "y"), ("engine.max_batch_size", 64)], BlastRadius.ENGINE_REBUILD),
    ],
)
def test_the_heaviest_setting_decides_what_a_change_does(
    settings: list[tuple[str, SettingValue]], radius: BlastRadius
) -> None:
    assert blast_radius(change(*settings)) == radius


def test_the_batch_limit_of_an_engine_is_built_into_it() -> None:
    larger = change(("max_batch_size", 64))

    assert blast_radius(larger, backend="tensorrt_plan") == BlastRadius.ENGINE_REBUILD
    assert blast_radius(larger, backend="python") == BlastRadius.RELOAD


@pytest.mark.parametrize(("policy", "there"), [({"max_queue_size": 4}, True), ({}, None), (None, None)])
def test_a_queue_policy_is_in_effect_where_it_says_something(
    policy: dict[str, object] | None, there: bool | None
) -> None:
    batching = {} if policy is None else {"default_queue_policy": policy}
    config = parse_model_config(json.dumps(model_config("safety", max_batch=8, batching=batching)).encode())

    assert current(config, "dynamic_batching.default_queue_policy") is there
