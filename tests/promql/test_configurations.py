"""Configurations as they come out of a store's labels, and out of a repository's files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from diagnostics.window.from_files import config_of_file
from diagnostics.window.graph import graph_of
from diagnostics.wire import exported
from diagnostics.wire.host import parse_host
from diagnostics.wire.model_config import DynamicBatching, InstanceGroup, ModelConfig, QueuePolicy, parse_model_config
from diagnostics.wire.records import BodyKind
from tests.captures.recorded import labels, scrapes_of

WHOLE = """
backend: "python"
max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1, 4] }]
output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
instance_group [{ count: 2 kind: KIND_CPU }, { count: 1 kind: KIND_GPU gpus: [0, 1] }]
dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 500 }
parameters { key: "gpt_model_type" value { string_value: "${batching}" } }
"""


def recorded(name: str) -> dict[str, ModelConfig]:
    configs = (parse_model_config(one.body) for one in scrapes_of(name) if one.kind is BodyKind.CONFIG and one.body)
    return {config.name: config for config in configs}


def read_back(config: ModelConfig) -> ModelConfig:
    def named(names: tuple[str, ...], values: tuple[str, ...]) -> dict[str, str]:
        return {name: value for name, value in zip(names, values, strict=True) if value}

    return exported.config_of(
        named(exported.CONFIG_LABELS, exported.config_labels("s", config)),
        [(named(exported.GROUP_LABELS, one), float(count)) for one, count in exported.group_labels("s", config)],
        [named(exported.PARAMETER_LABELS, one) for one in exported.parameter_labels("s", config)],
        [named(exported.STEP_LABELS, one) for one in exported.step_labels("s", config)],
    )


def shown(config: ModelConfig) -> ModelConfig:
    """Return what is exported of a configuration: groups without names, tensors of ensembles by theirs alone."""
    groups = tuple(replace(group, name="") for group in config.instance_groups if not group.passive)
    return replace(config, instance_groups=groups, inputs=(), parameters={}, ensemble_steps=(), warmups=())


@pytest.mark.parametrize("name", ["cpu-handed-single-instance", "gpu-handed-batch-collapse", "cpu-handed-kv-exhausted"])
def test_recorded_configurations_survive_as_labels(name: str) -> None:
    configs = recorded(name)
    back = {model: read_back(config) for model, config in configs.items()}
    assert {model: shown(config) for model, config in back.items()} == {
        model: shown(config) for model, config in configs.items()
    }
    before, after = graph_of(configs).ensembles, graph_of(back).ensembles
    assert {name: (one.models(), one.edges) for name, one in after.items()} == {
        name: (one.models(), one.edges) for name, one in before.items()
    }
    assert {model: len(config.warmups) for model, config in back.items()} == {
        model: len(config.warmups) for model, config in configs.items()
    }


@settings(max_examples=40, deadline=None)
@given(
    some.builds(
        ModelConfig,
        name=some.text(min_size=1, max_size=8),
        max_batch_size=some.integers(0, 4096),
        instance_groups=some.lists(
            some.builds(
                InstanceGroup,
                kind=some.sampled_from(["KIND_CPU", "KIND_GPU"]),
                count=some.integers(1, 99),
                gpus=some.lists(some.integers(0, 15), max_size=4).map(tuple),
                name=some.just(""),
            ),
            max_size=3,
        ).map(tuple),
        dynamic_batching=some.none()
        | some.builds(
            DynamicBatching,
            preferred_batch_sizes=some.lists(some.integers(1, 512), max_size=4).map(tuple),
            max_queue_delay_seconds=some.integers(0, 10**6).map(lambda us: us * 1e-6),
            queue_policy=some.builds(QueuePolicy, max_queue_size=some.integers(0, 10**6)),
        ),
        decoupled=some.booleans(),
    )
)
def test_any_configuration_survives_as_labels(config: ModelConfig) -> None:
    back = read_back(config)
    assert replace(back, dynamic_batching=None) == replace(config, dynamic_batching=None)
    if config.dynamic_batching is None or back.dynamic_batching is None:
        assert back.dynamic_batching is config.dynamic_batching
    else:
        delay = config.dynamic_batching.max_queue_delay_seconds
        assert back.dynamic_batching.max_queue_delay_seconds == pytest.approx(delay, rel=1e-5)
        assert replace(back.dynamic_batching, max_queue_delay_seconds=delay) == config.dynamic_batching


def test_parameters_that_no_check_reads_and_paths_are_not_exported() -> None:
    secret = {"api_token": "hush", "gpt_model_path": "/secret/place", "gpt_model_type": "V1"}
    config = ModelConfig(name="llm", backend="tensorrtllm", parameters=secret)
    assert read_back(config).parameters == {"gpt_model_path": "", "gpt_model_type": "V1"}
    assert "hush" not in repr(list(exported.parameter_labels("s", config)))


@pytest.mark.parametrize(
    "labels_of_a_stranger", [{}, {"max_batch_size": "many", "warmups": "9e99", "decoupled": "maybe"}]
)
def test_labels_that_make_no_sense_are_defaults(labels_of_a_stranger: dict[str, str]) -> None:
    config = exported.config_of({"model": "m", **labels_of_a_stranger}, [({"gpus": "x"}, float("nan"))], [{}], [{}])
    assert (config.max_batch_size, config.decoupled, config.instance_groups[0].count) == (0, False, 1)


@pytest.mark.parametrize("name", labels())
def test_recorded_files_are_read_as_their_server_completed_them(name: str) -> None:
    on_gpus = any(
        one.kind is BodyKind.METRICS and b"nv_gpu_utilization{" in (one.body or b"") for one in scrapes_of(name)
    )
    files = {one.name: one.body for one in scrapes_of(name) if one.kind is BodyKind.REPOSITORY and one.body}
    for model, config in recorded(name).items():
        text = files.get(f"{model}/config.pbtxt", b"").decode()
        if not text:
            continue
        made = config_of_file(model, text, on_gpus=on_gpus)
        assert made is not None
        for part in ("max_batch_size", "decoupled", "version_policy", "sequence_batching"):
            assert getattr(made, part) == getattr(config, part)
        assert made.parameters == config.parameters
        assert [step.model for step in made.ensemble_steps] == [step.model for step in config.ensemble_steps]
        assert (made.dynamic_batching is None) == (config.dynamic_batching is None)
        if made.dynamic_batching and config.dynamic_batching:
            delay = config.dynamic_batching.max_queue_delay_seconds
            assert made.dynamic_batching.max_queue_delay_seconds == pytest.approx(delay)
        assert [(one.kind, one.count) for one in made.instance_groups] == [
            (one.kind, one.count) for one in config.instance_groups
        ]


def test_a_file_is_read_with_all_that_it_says() -> None:
    config = config_of_file("safety", WHOLE, on_gpus=False)
    assert config is not None
    assert (config.name, config.max_batch_size) == ("safety", 8)
    assert [(one.kind, one.count, one.gpus) for one in config.instance_groups] == [
        ("KIND_CPU", 2, ()),
        ("KIND_GPU", 1, (0, 1)),
    ]
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.preferred_batch_sizes == (4, 8)
    assert config.inputs[0].dims == (-1, 4)


@pytest.mark.parametrize(
    ("backend", "on_gpus", "expected"),
    [("python", True, ("KIND_GPU", 1)), ("python", False, ("KIND_CPU", 1)), ("onnxruntime", False, ("KIND_CPU", 2))],
)
def test_instances_that_a_file_leaves_out_are_completed_as_triton_does(
    backend: str, on_gpus: bool, expected: tuple[str, int]
) -> None:
    text = f'backend: "{backend}" max_batch_size: 8 input {{ name: "A" }} output {{ name: "B" }}'
    config = config_of_file("m", text, on_gpus=on_gpus)
    assert config is not None
    assert [(one.kind, one.count) for one in config.instance_groups] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "max_batch_size: ",
        'backend: "onnxruntime"',
        'backend: "onnxruntime" input { name: "A" } output { name: "B" }',
        'backend: "python" max_batch_size: ${batch} input { name: "A" } output { name: "B" }',
        'backend: "python" max_batch_size: 8 input { name: "A" } output { name: "B" } instance_group { count: "many" }',
    ],
)
def test_a_file_that_leaves_things_open_gives_nothing(text: str) -> None:
    assert config_of_file("m", text, on_gpus=False) is None


def test_a_machine_survives_as_labels() -> None:
    (first, *_) = [one for one in scrapes_of("cpu-handed-host-cpu-starved") if one.kind is BodyKind.HOST and one.body]
    sample = parse_host(first.body)
    readings = [({"__name__": family.name}, value) for family, value in exported.host_values(sample)]
    for family, values, value in exported.process_values("s", sample):
        labels_of = zip(exported.PROCESS_LABELS, values, strict=True)
        readings.append(({"__name__": family.name, **{name: text for name, text in labels_of if text}}, value))
    back = exported.sample_of(sample.at or 0.0, readings)
    processes = tuple(sorted((replace(one, ppid=None) for one in sample.processes), key=lambda one: one.pid))
    assert back == replace(sample, processes=processes)
    assert sample.processes
