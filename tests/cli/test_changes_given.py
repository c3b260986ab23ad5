from __future__ import annotations

import re

import pytest

from diagnostics.diagnosis.change_options import MOST_VALUES, changes_given, models_on, rate_factor, sweep_given
from diagnostics.errors import UsageError
from diagnostics.tuning.changes import SettingValue, WarmupChange
from tests.builders import SERVER, Stage, SyntheticTriton, chain, model_config

MODELS = ("safety", "embedder", "bert.base", "bert.base.large")


def settings(*texts: str) -> dict[tuple[str, str], SettingValue]:
    return {(one.model, s.path): s.value for one in changes_given(texts, MODELS) for s in one.settings}


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("safety.instance_group.count=3", "instance_group.count", 3),
        ("safety.dynamic_batching=true", "dynamic_batching", True),
        ("safety.dynamic_batching=none", "dynamic_batching", None),
        ("safety.dynamic_batching.preserve_ordering=off", "dynamic_batching.preserve_ordering", False),
        ("safety.dynamic_batching.preferred_batch_size=4,8", "dynamic_batching.preferred_batch_size", (4, 8)),
        ("safety.dynamic_batching.preferred_batch_size=8", "dynamic_batching.preferred_batch_size", (8,)),
        ("safety.parameters.key=a=4", "parameters.key", "a=4"),
        ("safety.version_policy=latest:2", "version_policy", "latest:2"),
        ("safety.model_warmup=1,8", "model_warmup", WarmupChange(batch_sizes=(1, 8))),
        (
            "safety.dynamic_batching.default_queue_policy.timeout_action=delay",
            "dynamic_batching.default_queue_policy.timeout_action",
            "DELAY",
        ),
    ],
)
def test_a_text_is_a_setting_of_a_model(text: str, path: str, value: SettingValue) -> None:
    assert settings(text) == {("safety", path): value}


def test_a_models_name_may_hold_dots_and_the_longest_known_one_is_meant() -> None:
    found = settings("bert.base.instance_group.count=2", "bert.base.large.instance_group.count=3")

    assert found == {("bert.base", "instance_group.count"): 2, ("bert.base.large", "instance_group.count"): 3}


@pytest.mark.parametrize(("text", "microseconds"), [("5000", 5000), ("5ms", 5000), ("1.5 ms", 1500), ("0.01s", 10_000)])
def test_a_batching_window_is_given_in_microseconds_or_with_its_unit(text: str, microseconds: int) -> None:
    path = "dynamic_batching.max_queue_delay_microseconds"

    assert settings(f"safety.{path}={text}") == {("safety", path): microseconds}


def test_settings_of_one_model_are_one_change() -> None:
    (change,) = changes_given(["safety.instance_group.count=2", "safety.max_batch_size=8"], MODELS)

    assert [setting.path for setting in change.settings] == ["instance_group.count", "max_batch_size"]


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("safety.instance_group.count", "write it like safety.instance_group.count=3"),
        ("safty.instance_group.count=3", "there is no model 'safty'; did you mean safety? models are safety, embedder"),
        ("bert.huge.instance_group.count=3", "there is no model 'bert.huge'"),
        ("safety.instance_group.cuont=3", "did you mean instance_group.count?"),
        ("safety.count=3", "did you mean instance_group.count?"),
        ("safety=3", "'safety' names a model, but no setting of it; write it like safety.instance_group.count=3"),
        ("safety.instances=3", "did you mean instance_group.count?"),
        ("safety.max_num_seqs=3", "did you mean engine.max_batch_size?"),
        ("safety.max-running-requests=3", "did you mean engine.max_batch_size?"),
        ("safety.max_num_batched_tokens=3", "did you mean engine.max_num_tokens?"),
        ("engine.max_num_seqs=3", "name the model whose engine it is: MODEL.engine.max_num_seqs; models are safety"),
        ("safety.delay=3", "did you mean dynamic_batching.max_queue_delay_microseconds?"),
        ("safety.priority=3", "settings are dynamic_batching, "),
        ("safety.instance_group.count=0", "a whole number from 1 to 1024"),
        ("safety.instance_group.count=many", "cannot be 'many'"),
        ("safety.instance_group.count=none", "cannot be None"),
    ],
)
def test_what_cannot_be_set_is_refused_with_what_can(text: str, stated: str) -> None:
    with pytest.raises(UsageError, match=re.escape(stated)):
        settings(text)


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="set twice"):
        settings("safety.max_batch_size=2", "safety.max_batch_size=4")


def test_ensembles_have_no_settings_to_change() -> None:
    stages = (Stage("a", rate=1, config=model_config("a")), Stage("chat", rate=1, config=chain("chat", "a")))

    assert models_on(SyntheticTriton(models=stages).evidence(), SERVER) == ["a"]


@pytest.mark.parametrize(("text", "factor"), [("2x", 2.0), ("0.5x", 0.5), ("40/s", 2.0), (" 30 /s ", 1.5)])
def test_a_rate_is_a_multiple_or_requests_per_second(text: str, factor: float) -> None:
    assert rate_factor(text, 20.0) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("text", "measured"), [("2", 20.0), ("0x", 20.0), ("-1x", 20.0), ("40/s", None), ("40/m", 20.0)]
)
def test_no_rate_is_refused(text: str, measured: float | None) -> None:
    with pytest.raises(UsageError, match="--rate"):
        rate_factor(text, measured)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("safety.instance_group.count=1..4", ("1", "2", "3", "4")),
        ("safety.instance_group.count=1..8:3", ("1", "4", "7")),
        ("safety.instance_group.count=1,2,4", ("1", "2", "4")),
        ("safety.instance_group.count=10,1,2,2", ("1", "2", "10")),
        ("rate=10..30/s:10", ("10/s", "20/s", "30/s")),
        ("rate=10..30:10/s", ("10/s", "20/s", "30/s")),
        ("rate=1..2x:0.5", ("1x", "1.5x", "2x")),
        ("rate=10,20/s", ("10/s", "20/s")),
        ("clients=1..9:4", ("1", "5", "9")),
    ],
)
def test_a_sweep_names_its_values_or_their_range(text: str, values: tuple[str, ...]) -> None:
    assert sweep_given(text, MODELS).values == values


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("safety.instance_group.count", "cannot read the sweep"),
        ("safety.instance_group.count=3", "cannot read several values"),
        ("safety.instance_group.count=8..1", "holds no value"),
        ("safety.instance_group.count=1..900", f"{MOST_VALUES} values at most"),
        ("safety.instance_group.count=0..3", "a whole number from 1 to 1024"),
        ("speed=1..3", "there is no model 'speed'"),
    ],
)
def test_what_is_no_sweep_is_refused_with_a_hint(text: str, stated: str) -> None:
    with pytest.raises(UsageError, match=re.escape(stated)):
        sweep_given(text, MODELS)
