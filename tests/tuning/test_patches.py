"""A patch changes what it says and nothing else, in the words of the file that it finds."""

from __future__ import annotations

import re
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from diagnostics.errors import MalformedBody, UsageError
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue, WarmupChange
from diagnostics.tuning.patch import edited, patch
from diagnostics.wire.model_config import (
    DynamicBatching,
    EnsembleStep,
    Input,
    InstanceGroup,
    ModelConfig,
    QueuePolicy,
)
from diagnostics.wire.model_config import Warmup as Sample

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
ONE_LINE = """\
name: "safety"
backend: "python"
max_batch_size: 1
input [{ name: "IN" data_type: TYPE_FP32 dims: [4] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [4] }]
instance_group [{ count: 1 kind: KIND_CPU }]
"""
TEMPLATED = """\
# Filled by fill_template.py
name: "preprocessing"
max_batch_size: ${triton_max_batch_size}
dynamic_batching {
    # short, or the engine starves
    max_queue_delay_microseconds: ${max_queue_delay_microseconds}   # µs
    preferred_batch_size: [ ${triton_max_batch_size} ]
}
instance_group [
    {
        count: ${preprocessing_instance_count}
        kind: KIND_CPU
    }
]
parameters {
  key: "tokenizer_dir"
  value: { string_value: "${tokenizer_dir}" }
}
"""


def change(*parts: tuple[str, SettingValue]) -> ConfigChange:
    return ConfigChange(model="safety", settings=tuple(Setting(path=path, value=value) for path, value in parts))


def config(text: str, fill: str = "7") -> model_config_pb2.ModelConfig:
    """Parse as Triton does, template fields filled."""
    return text_format.Parse(re.sub(r"\$\{[^}]*\}", fill, text), model_config_pb2.ModelConfig())


def applied(diff: str, before: str, folder: Path, *tool: str) -> str:
    """Apply a diff with a real tool and return the file."""
    target = folder / "safety" / "config.pbtxt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(before.encode())
    (folder / "change.patch").write_bytes(diff.encode())
    subprocess.run([*tool, "change.patch"], cwd=folder, check=True, capture_output=True, timeout=30)
    return target.read_bytes().decode()


def test_one_number_changes_in_its_place() -> None:
    assert edited(ONE_LINE, change(("instance_group.count", 3))) == ONE_LINE.replace("count: 1", "count: 3")


def test_the_patch_is_a_unified_diff_of_the_file() -> None:
    made = patch(change(("instance_group.count", 3)), file_text=ONE_LINE, path="safety/config.pbtxt", effective=None)

    assert made.base == "file"
    assert made.notes == ()
    assert made.text.startswith("--- a/safety/config.pbtxt\n+++ b/safety/config.pbtxt\n@@")
    assert "-instance_group [{ count: 1 kind: KIND_CPU }]\n" in made.text
    assert "+instance_group [{ count: 3 kind: KIND_CPU }]\n" in made.text


@pytest.mark.parametrize("tool", [("git", "apply", "-p1"), ("patch", "-p1", "-i")])
@pytest.mark.parametrize(
    "before",
    [
        ONE_LINE,
        ONE_LINE.rstrip("\n"),
        ONE_LINE.replace("\n", "\r\n"),
        TEMPLATED,
        ONE_LINE.replace("\n", "\n\n# what follows\u2028 matters\n"),
    ],
    ids=["as shipped", "no final newline", "CRLF", "templates", "comments and a line separator"],
)
def test_real_tools_apply_the_patch(before: str, tool: tuple[str, ...], tmp_path: Path) -> None:
    if tool[0] == "patch" and not Path("/usr/bin/patch").exists():
        pytest.skip("no patch on this machine")
    wanted = change(("instance_group.count", 3), ("max_batch_size", 16), ("dynamic_batching.preserve_ordering", True))
    made = patch(wanted, file_text=before, path="safety/config.pbtxt", effective=None)
    if tool[0] == "patch":
        tool = ("patch", "--binary", *tool[1:])

    assert applied(made.text, before, tmp_path, *tool) == edited(before, wanted)


def test_comments_order_indentation_and_template_fields_survive() -> None:
    after = edited(
        TEMPLATED, change(("instance_group.count", 4), ("dynamic_batching.max_queue_delay_microseconds", 500))
    )

    assert after == TEMPLATED.replace("${preprocessing_instance_count}", "4").replace(
        "${max_queue_delay_microseconds} ", "500 "
    )


def test_a_template_field_is_named_where_its_value_is_the_thing_to_change() -> None:
    made = patch(
        change(("instance_group.count", 4), ("parameters.tokenizer_dir", "/t")),
        file_text=TEMPLATED,
        path="preprocessing/config.pbtxt",
        effective=None,
    )

    assert made.notes[0] == (
        "instance_group.count is filled from the template field ${preprocessing_instance_count}: give "
        "preprocessing_instance_count the value 4 there, or the next fill loses this change"
    )
    assert "give tokenizer_dir the value /t there" in made.notes[1]


def test_added_fields_take_the_layout_of_their_block() -> None:
    after = edited(TEMPLATED, change(("dynamic_batching.preserve_ordering", True)))

    assert "    preferred_batch_size: [ ${triton_max_batch_size} ]\n    preserve_ordering: true\n}\n" in after


def test_a_field_is_added_behind_the_comment_of_the_line_before() -> None:
    before = "dynamic_batching {\n\tmax_queue_delay_microseconds: 5 # as measured\n}\n"

    after = edited(before, change(("dynamic_batching.preserve_ordering", True)))

    assert after == before.replace("measured\n", "measured\n\tpreserve_ordering: true\n")


def test_carriage_returns_are_kept_and_used() -> None:
    before = TEMPLATED.replace("\n", "\r\n")

    after = edited(before, change(("dynamic_batching.preserve_ordering", True), ("version_policy", "all")))

    assert after.count("\n") == after.count("\r\n") == before.count("\n") + 2
    assert after.endswith("version_policy { all { } }\r\n")


@pytest.mark.parametrize(
    ("before", "count", "after"),
    [
        ("", 2, "instance_group [{ count: 2 }]\n"),
        ("name: 'a'", 2, "name: 'a'\ninstance_group [{ count: 2 }]"),
        ("instance_group []\n", 2, "instance_group [{ count: 2 }]\n"),
        ("instance_group { }\n", 2, "instance_group { count: 2 }\n"),
        ("instance_group: <kind: KIND_CPU>\n", 2, "instance_group: <kind: KIND_CPU count: 2>\n"),
        ("instance_group [{kind: KIND_CPU, }]\n", 2, "instance_group [{kind: KIND_CPU, count: 2, }]\n"),
        ("instance_group [{count: 0x1},{count: 2}]\n", 1, "instance_group [{count: 0x1},{count: 1}]\n"),
        (
            "instance_group { count: 1 }\ninstance_group { count: 1 passive: true }\n",
            4,
            "instance_group { count: 4 }\ninstance_group { count: 1 passive: true }\n",
        ),
    ],
)
def test_the_count_reaches_every_group_that_serves(before: str, count: int, after: str) -> None:
    assert edited(before, change(("instance_group.count", count))) == after


def test_several_groups_and_gpus_are_stated() -> None:
    text = "instance_group [{ count: 1 gpus: [0, 1] }, { count: 1 passive: true }]"
    made = patch(change(("instance_group.count", 2)), file_text=text, path="a/config.pbtxt", effective=None)

    assert made.notes == (
        "the count applies to each of the 1 active instance groups; passive groups are left as they are",
        "the count is per GPU, and the group lists 2 of them",
    )


def test_repeated_fields_become_one_list() -> None:
    before = "max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: 2\n  preferred_batch_size: 4\n}\n"

    after = edited(before, change(("dynamic_batching.preferred_batch_size", (4, 8))))

    assert after == "max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}\n"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance_group.count", 1),
        ("max_batch_size", 1),
        ("dynamic_batching", None),
        ("dynamic_batching.max_queue_delay_microseconds", None),
        ("parameters.x", None),
        ("model_warmup", None),
    ],
)
def test_what_the_file_already_says_makes_an_empty_patch(path: str, value: SettingValue) -> None:
    made = patch(change((path, value)), file_text=ONE_LINE, path="safety/config.pbtxt", effective=None)

    assert (made.text, made.notes) == ("", ())


EVERYTHING = change(
    ("instance_group.count", 3),
    ("max_batch_size", 16),
    ("dynamic_batching.preferred_batch_size", (4, 8)),
    ("dynamic_batching.default_queue_policy.max_queue_size", 64),
    ("model_warmup", WarmupChange(batch_sizes=(1, 8))),
    ("version_policy", "specific:1,2"),
    ("response_cache.enable", True),
    ("parameters.quote", 'say "\\x"\n'),
)


def test_every_setting_reads_back_as_triton_reads_it() -> None:
    after = config(edited(ONE_LINE, EVERYTHING))

    wanted = config(ONE_LINE)
    wanted.instance_group[0].count = 3
    wanted.max_batch_size = 16
    wanted.dynamic_batching.preferred_batch_size.extend((4, 8))
    wanted.dynamic_batching.default_queue_policy.max_queue_size = 64
    for size in (1, 8):
        sample = wanted.model_warmup.add(name=f"batch {size}", batch_size=size)
        sample.inputs["IN"].data_type = model_config_pb2.TYPE_FP32
        sample.inputs["IN"].dims.append(4)
        sample.inputs["IN"].zero_data = True
    wanted.version_policy.specific.versions.extend((1, 2))
    wanted.response_cache.enable = True
    wanted.parameters["quote"].string_value = 'say "\\x"\n'
    assert after == wanted


def test_applying_a_change_twice_changes_nothing_more() -> None:
    once = edited(ONE_LINE, EVERYTHING)

    assert edited(once, EVERYTHING) == once


def test_blocks_and_fields_are_removed_with_their_lines() -> None:
    after = edited(
        TEMPLATED,
        change(("dynamic_batching.preferred_batch_size", None), ("parameters.tokenizer_dir", None)),
    )

    assert (
        after
        == TEMPLATED.replace("    preferred_batch_size: [ ${triton_max_batch_size} ]\n", "").split("parameters")[0]
    )


def test_one_parameter_of_a_list_is_removed_with_its_comma() -> None:
    entries = ['{ key: "a" value { string_value: "1" } }', '{ key: "b" value { string_value: "2" } }']
    before = f"parameters [ {entries[0]}, {entries[1]} ]"

    assert edited(before, change(("parameters.a", None))) == f"parameters [ {entries[1]} ]"
    assert edited(before, change(("parameters.b", None))) == f"parameters [ {entries[0]} ]"


def test_warmup_covers_the_sizes_that_are_missing_and_skips_optional_inputs() -> None:
    before = """\
input [{ name: "A" data_type: TYPE_INT64 dims: [ -1, 3 ] }, { name: "B" data_type: TYPE_BOOL dims: [1] optional: true }]
model_warmup { name: "mine" batch_size: 4 }
"""
    made = patch(
        change(("model_warmup", WarmupChange(batch_sizes=(4, 1)))),
        file_text=before,
        path="a/config.pbtxt",
        effective=None,
    )
    after = config(edited(before, change(("model_warmup", WarmupChange(batch_sizes=(4, 1))))))

    assert [(s.name, s.batch_size) for s in after.model_warmup] == [("mine", 4), ("batch 1", 1)]
    assert list(after.model_warmup[1].inputs) == ["A"]
    assert list(after.model_warmup[1].inputs["A"].dims) == [1, 3]
    assert made.notes == ("dimensions of -1 are warmed up as 1: give the sizes that requests have",)


def test_samples_of_several_inputs_have_a_line_for_each() -> None:
    inputs = "".join(f'input [{{ name: "I{at}" data_type: TYPE_FP32 dims: [ 4 ] }}]\n' for at in range(3))
    after = edited(inputs, change(("model_warmup", WarmupChange(batch_sizes=(1,)))))

    assert after.splitlines()[3:] == [
        'model_warmup [{ name: "batch 1" batch_size: 1',
        *(
            f'  inputs {{ key: "I{at}" value {{ data_type: TYPE_FP32 dims: [ 4 ] zero_data: true }} }}'
            for at in range(3)
        ),
        "}]",
    ]
    assert sorted(config(after).model_warmup[0].inputs) == ["I0", "I1", "I2"]


def test_sizes_above_the_new_limit_are_dropped_and_stated() -> None:
    before = "max_batch_size: 16\ndynamic_batching { preferred_batch_size: [ 4, 16 ] }\n"
    made = patch(change(("max_batch_size", 8)), file_text=before, path="a/config.pbtxt", effective=None)

    assert edited(before, change(("max_batch_size", 8))) == before.replace("size: 16", "size: 8").replace("4, 16", "4")
    assert any("dropped" in note for note in made.notes)


@pytest.mark.parametrize(
    ("text", "wanted", "words"),
    [
        (
            "max_batch_size: 4",
            change(("dynamic_batching.preferred_batch_size", (8,))),
            "exceeds max_batch_size 4",
        ),
        ("sequence_batching { }", change(("dynamic_batching", True)), "not allowed beside sequence_batching"),
        ("ensemble_scheduling { }", change(("instance_group.count", 2)), "an ensemble has no instances"),
    ],
)
def test_what_triton_would_not_load_is_refused(text: str, wanted: ConfigChange, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        edited(text, wanted)


def test_a_queue_limit_comes_with_its_known_defect() -> None:
    made = patch(
        change(("dynamic_batching.default_queue_policy.max_queue_size", 100)),
        file_text=ONE_LINE,
        path="safety/config.pbtxt",
        effective=None,
    )

    assert "500 ms" in made.notes[0]


def test_a_file_that_is_not_text_format_is_refused_with_its_place() -> None:
    with pytest.raises(MalformedBody, match=r"^safety/config\.pbtxt:1:1: "):
        patch(change(("max_batch_size", 2)), file_text="<html>\n", path="safety/config.pbtxt", effective=None)


def test_an_engine_limit_leaves_the_file_alone_and_says_how_to_build() -> None:
    made = patch(change(("engine.max_num_tokens", 8192)), file_text=ONE_LINE, path="a/config.pbtxt", effective=None)

    assert made.text == ""
    assert made.notes == ("max_num_tokens is built into the engine: build it again with --max_num_tokens 8192",)


EFFECTIVE = ModelConfig(
    name="safety",
    max_batch_size=16,
    instance_groups=(InstanceGroup(name="safety", kind="KIND_GPU", count=1, gpus=(0,)),),
    dynamic_batching=DynamicBatching(
        preferred_batch_sizes=(16,),
        max_queue_delay_seconds=0.0005,
        queue_policy=QueuePolicy(max_queue_size=4, timeout_action="DELAY"),
    ),
    parameters={"a": "1", "b": "2"},
)


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        (
            change(("instance_group.count", 3)),
            ["instance_group [{ count: 3 kind: KIND_GPU gpus: [ 0 ] }]"],
        ),
        (
            change(("dynamic_batching.default_queue_policy.max_queue_size", None)),
            ["dynamic_batching { max_queue_delay_microseconds: 500 default_queue_policy { timeout_action: DELAY } }"],
        ),
        (change(("dynamic_batching", None)), ["# Remove the field dynamic_batching."]),
        (change(("parameters.b", "3")), ['parameters { key: "b" value { string_value: "3" } }']),
        (change(("parameters.b", None)), ["# Remove the parameter b."]),
        (change(("version_policy", "all")), ["version_policy { all { } }"]),
        (change(("instance_group.count", 1)), []),
    ],
)
def test_without_the_file_a_fragment_says_what_it_is(wanted: ConfigChange, lines: list[str]) -> None:
    made = patch(wanted, file_text=None, path="safety/config.pbtxt", effective=EFFECTIVE)

    text = made.text.splitlines()
    assert made.base == "effective"
    assert [line for line in text[1:] if not line.startswith(("# Put these", "# A parameter"))] == lines
    assert not text or text[0].startswith("# A fragment for safety/config.pbtxt")
    config(made.text)


def test_a_fragment_never_holds_warmup_samples_without_their_inputs() -> None:
    warmed = replace(EFFECTIVE, warmups=(Sample(name="mine", batch_size=1),))
    requested = change(("model_warmup", WarmupChange(batch_sizes=(1, 8))), ("max_batch_size", 8))
    made = patch(requested, file_text=None, path="safety/config.pbtxt", effective=warmed)

    assert made.text.splitlines()[2:] == ["max_batch_size: 8"]
    assert any("write the warm-up samples by hand" in note for note in made.notes)


def test_without_anything_a_fragment_holds_the_setting_alone() -> None:
    made = patch(change(("max_batch_size", 8)), file_text=None, path="a/config.pbtxt", effective=None)

    assert made.text.endswith("\nmax_batch_size: 8\n")


def test_an_ensemble_in_effect_has_no_instances_either() -> None:
    ensemble = ModelConfig(name="chat", ensemble_steps=(EnsembleStep(model="safety"),))

    with pytest.raises(UsageError, match="an ensemble has no instances"):
        patch(change(("instance_group.count", 2)), file_text=None, path="chat/config.pbtxt", effective=ensemble)


def test_the_files_of_the_recorded_deployments_take_every_change() -> None:
    for text in recorded_files():
        if "ensemble_scheduling" in text:
            continue
        after, wanted = config(edited(text, EVERYTHING)), config(text)

        assert after.instance_group[0].count == 3
        assert after.max_batch_size == 16
        assert list(after.input) == list(wanted.input)


def recorded_files() -> list[str]:
    texts: list[str] = []
    for archive in sorted(CAPTURES.glob("cpu-*single-instance.tar.xz")):
        with tarfile.open(archive) as files:
            for member in files:
                body = files.extractfile(member) if member.name.endswith("config.pbtxt") else None
                texts += [body.read().decode()] if body else []
    assert texts
    return texts


SPACE = st.sampled_from([" ", "\n", "  # a comment: { [\n", "\r\n", "\t"])
NUMBER = st.sampled_from(["1", "2", "0x3", "04", "${n}", "16"])


@st.composite
def block(draw: st.DrawFn, *fields: str) -> str:
    """Return fields between brackets, in any style that text format allows."""
    left, right = draw(st.sampled_from(["{}", "<>"]))
    gap = draw(SPACE)
    inner = gap.join(f"{field}{draw(st.sampled_from(['', ',', ' ;']))}" for field in fields)
    return f"{left}{gap}{inner}{gap}{right}"


@st.composite
def group(draw: st.DrawFn) -> str:
    fields = [f"kind: {draw(st.sampled_from(['KIND_CPU', 'KIND_GPU']))}"]
    fields += [f"count: {draw(NUMBER)}"] * draw(st.booleans())
    fields += ["gpus: [0,1]"] * draw(st.booleans())
    fields += ["passive: true"] * draw(st.booleans())
    return draw(block(*draw(st.permutations(fields))))


@st.composite
def groups(draw: st.DrawFn) -> list[str]:
    made = draw(st.lists(group(), max_size=3))
    colon = draw(st.sampled_from(["", ":", " :"]))
    if draw(st.booleans()):
        return [f"instance_group{colon} [{draw(SPACE)}{', '.join(made)}]"]
    return [f"instance_group{colon} {one}" for one in made]


@st.composite
def batching(draw: st.DrawFn) -> list[str]:
    fields = [f"max_queue_delay_microseconds: {draw(NUMBER)}"] * draw(st.booleans())
    fields += ["preferred_batch_size: 1", "preferred_batch_size: [ 2 ]"] * draw(st.booleans())
    if draw(st.booleans()):
        inner = ["max_queue_size: " + draw(NUMBER)] * draw(st.booleans())
        fields.append(f"default_queue_policy {draw(block(*inner))}")
    return [f"dynamic_batching {draw(block(*fields))}"] * draw(st.booleans())


@st.composite
def files(draw: st.DrawFn) -> str:
    fields = ["name: 'a' \"b\"", 'input [{ name: "IN" data_type: TYPE_FP32 dims: [ 4 ] }]']
    fields += draw(groups()) + draw(batching())
    fields += [f"max_batch_size: {draw(NUMBER)}"] * draw(st.booleans())
    fields += ['parameters { key: "k" value: { string_value: "${n}" } }'] * draw(st.booleans())
    fields += ["version_policy: { latest { num_versions: 1 } }"] * draw(st.booleans())
    gap = draw(st.sampled_from(["\n", "\r\n", "  # note\n\n"]))
    return gap.join(draw(st.permutations(fields))) + draw(st.sampled_from(["", "\n", " # end", "\r\n"]))


def _count(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    active = [one for one in wanted.instance_group if not one.passive]
    for one in active or [wanted.instance_group.add()]:
        one.count = value


def _delay(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    wanted.dynamic_batching.max_queue_delay_microseconds = value


def _limit(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    wanted.dynamic_batching.default_queue_policy.max_queue_size = value


def _most(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    wanted.max_batch_size = value


def _versions(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    wanted.version_policy.latest.num_versions = value


def _parameter(wanted: model_config_pb2.ModelConfig, value: int) -> None:
    wanted.parameters["k"].string_value = str(value)


CHANGES = {
    "instance_group.count": (_count, lambda value: value),
    "dynamic_batching.max_queue_delay_microseconds": (_delay, lambda value: value),
    "dynamic_batching.default_queue_policy.max_queue_size": (_limit, lambda value: value),
    "max_batch_size": (_most, lambda value: value),
    "version_policy": (_versions, lambda value: f"latest:{value}"),
    "parameters.k": (_parameter, str),
}


@settings(max_examples=120, deadline=None)
@given(files(), st.sampled_from(sorted(CHANGES)), st.integers(min_value=2, max_value=32))
def test_exactly_the_changed_field_differs(text: str, path: str, value: int) -> None:
    expect, spell = CHANGES[path]
    wanted = config(text)
    expect(wanted, value)
    requested = change((path, spell(value)))

    after = edited(text, requested)

    assert config(after) == wanted
    assert edited(after, requested) == after
    assert all(comment in after for comment in re.findall(r"#[^\n]*", text))


@settings(max_examples=50, deadline=None)
@given(files(), st.sampled_from(["dynamic_batching", "version_policy", "parameters.k"]))
def test_exactly_the_removed_field_is_gone(text: str, path: str) -> None:
    wanted = config(text)
    wanted.ClearField(path.partition(".")[0])

    assert config(edited(text, change((path, None)))) == wanted


def test_late_requests_cannot_be_delayed_where_responses_keep_their_order() -> None:
    ordered = ONE_LINE + "dynamic_batching { preserve_ordering: true }\n"

    with pytest.raises(UsageError, match="not allowed beside preserve_ordering"):
        edited(ordered, change(("dynamic_batching.default_queue_policy.timeout_action", "DELAY")))


def test_warm_up_requests_are_written_for_the_inputs_in_effect() -> None:
    inputs = (Input(name="text", data_type="TYPE_STRING", dims=(-1,)), Input(name="more", data_type="", dims=(2,)))
    wanted = change(("model_warmup", WarmupChange(batch_sizes=(1, 4))))
    made = patch(wanted, file_text=None, path="safety/config.pbtxt", effective=replace(EFFECTIVE, inputs=inputs))

    warmed = config(made.text).model_warmup
    assert [sample.batch_size for sample in warmed] == [1, 4]
    assert {name: list(value.dims) for name, value in warmed[0].inputs.items()} == {"text": [1]}
    assert "added to those that are there" in made.text
