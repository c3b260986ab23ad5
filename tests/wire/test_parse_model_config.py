from __future__ import annotations

import json

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire.model_config import (
    DynamicBatching,
    EnsembleStep,
    InstanceGroup,
    ModelConfig,
    QueuePolicy,
    Warmup,
    parse_model_config,
)

FULL = {
    "name": "safety",
    "platform": "",
    "backend": "python",
    "version_policy": {"specific": {"versions": [1, 3]}},
    "max_batch_size": 16,
    "instance_group": [
        {"name": "safety_0", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1], "passive": False},
        {"name": "standby", "kind": "KIND_GPU", "count": 1, "gpus": [], "passive": True},
    ],
    "dynamic_batching": {
        "preferred_batch_size": [4, 16],
        "max_queue_delay_microseconds": 1000,
        "preserve_ordering": True,
        "priority_levels": 2,
        "default_queue_policy": {
            "timeout_action": "DELAY",
            "default_timeout_microseconds": 500_000,
            "allow_timeout_override": True,
            "max_queue_size": 32,
        },
    },
    "model_warmup": [{"name": "w", "batch_size": 1, "count": 5, "inputs": {}}],
    "model_transaction_policy": {"decoupled": True},
    "parameters": {"batching_strategy": {"string_value": "inflight_fused_batching"}},
    "response_cache": {"enable": True},
}


def test_a_configuration_keeps_every_setting_in_base_units():
    assert parse_model_config(json.dumps(FULL).encode()) == ModelConfig(
        name="safety",
        backend="python",
        max_batch_size=16,
        instance_groups=(
            InstanceGroup(name="safety_0", kind="KIND_GPU", count=2, gpus=(0, 1)),
            InstanceGroup(name="standby", kind="KIND_GPU", passive=True),
        ),
        dynamic_batching=DynamicBatching(
            preferred_batch_sizes=(4, 16),
            max_queue_delay_seconds=0.001,
            preserve_ordering=True,
            priority_levels=2,
            queue_policy=QueuePolicy(
                timeout_action="DELAY",
                default_timeout_seconds=0.5,
                allow_timeout_override=True,
                max_queue_size=32,
            ),
        ),
        warmups=(Warmup(name="w", batch_size=1, count=5),),
        decoupled=True,
        parameters={"batching_strategy": "inflight_fused_batching"},
        version_policy="specific:1,3",
        response_cache=True,
    )


def test_an_ensemble_lists_its_steps_with_their_tensors():
    body = {
        "name": "chat",
        "platform": "ensemble",
        "ensemble_scheduling": {
            "step": [
                {"model_name": "a", "model_version": -1, "input_map": {"IN": "IN"}, "output_map": {"OUT": "t_1"}},
                {"model_name": "b", "model_version": "2", "input_map": {"IN": "t_1"}, "output_map": {"OUT": "OUT"}},
                {"model_name": "c", "input_map": {"IN": "OUT"}, "output_map": {"OUT": "END"}},
            ]
        },
    }

    assert parse_model_config(json.dumps(body).encode()).ensemble_steps == (
        EnsembleStep(model="a", version=-1, input_map={"IN": "IN"}, output_map={"OUT": "t_1"}),
        EnsembleStep(model="b", version=2, input_map={"IN": "t_1"}, output_map={"OUT": "OUT"}),
        EnsembleStep(model="c", version=0, input_map={"IN": "OUT"}, output_map={"OUT": "END"}),
    )


def test_the_grpc_answer_is_unwrapped_and_its_spelling_understood():
    body = {
        "config": {
            "name": "m",
            "maxBatchSize": 8,
            "instanceGroup": [{"kind": "KIND_CPU", "count": 3}],
            "dynamicBatching": {"maxQueueDelayMicroseconds": "250"},
            "versionPolicy": {"latest": {"numVersions": 2}},
            "parameters": {"some_key": {"stringValue": "x"}},
        }
    }

    assert parse_model_config(json.dumps(body).encode()) == ModelConfig(
        name="m",
        max_batch_size=8,
        instance_groups=(InstanceGroup(kind="KIND_CPU", count=3),),
        dynamic_batching=DynamicBatching(max_queue_delay_seconds=0.00025),
        version_policy="latest:2",
        parameters={"some_key": "x"},
    )


def test_an_empty_dynamic_batching_is_on_and_an_absent_one_is_off():
    assert parse_model_config(b'{"name": "m", "dynamic_batching": {}}').dynamic_batching == DynamicBatching()
    assert parse_model_config(b'{"name": "m", "dynamic_batching": null}').dynamic_batching is None
    assert parse_model_config(b'{"name": "m"}').dynamic_batching is None


def test_sequence_batching_and_all_versions_are_seen():
    config = parse_model_config(b'{"name": "m", "sequence_batching": {}, "version_policy": {"all": {}}}')

    assert (config.sequence_batching, config.version_policy) == (True, "all")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({}, "latest:1"), ({"latest": {}}, "latest:0"), ({"latest": {"num_versions": 2}}, "latest:2")],
)
def test_the_latest_are_as_many_as_are_written(policy, expected):
    body = json.dumps({"name": "m", "version_policy": policy}).encode()

    assert parse_model_config(body).version_policy == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "has no name"),
        (b'{"error": "Request for unknown model"}', "answered with an error"),
        (b'{"name": "m", "instance_group": {"count": 1}}', "'instance_group' should be a list"),
        (b'{"name": "m", "instance_group": [1]}', "should be a list of objects"),
        (b'{"name": "m", "response_cache": {"enable": "yes"}}', "'enable' should be true or false"),
    ],
)
def test_what_is_no_configuration_is_refused_by_name(body, message):
    with pytest.raises(MalformedBody, match=message):
        parse_model_config(body)
