"""Text format is read as people write it, and refused with a place when it is not text format."""

from __future__ import annotations

import re
import time

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from diagnostics.errors import MalformedBody
from diagnostics.tuning.pbtxt import MAX_DEPTH, MAX_LENGTH, ListValue, Scalar, TextMessage, parse, quote

TENSORRT_LLM = """\
# Copyright
name: "tensorrt_llm"   # the engine
backend: "${triton_backend}"
max_batch_size: ${triton_max_batch_size}

model_transaction_policy {
  decoupled: ${decoupled_mode}
}
dynamic_batching {
    preferred_batch_size: [ ${triton_max_batch_size} ]
    max_queue_delay_microseconds: ${max_queue_delay_microseconds}
}
input [
  { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true },
  {
    name: "logits"
    data_type: ${logits_datatype}
    dims: [ - 1, 0x10 ]
    optional: true
  }
]
instance_group [ { count: 1 kind : KIND_CPU } ]
parameters: {
  key: "gpt_model_path"
  value: { string_value: "${engine_dir}/"
                         '1-gpu' };
}
"""


def test_every_node_knows_its_place_in_the_text() -> None:
    def walk(message: TextMessage) -> None:
        for field in message.fields:
            assert TENSORRT_LLM[field.start :].startswith(field.name)
            for value in field.values():
                if isinstance(value, TextMessage):
                    assert TENSORRT_LLM[value.start] + TENSORRT_LLM[value.end - 1] in ("{}", "<>")
                    walk(value)
                elif isinstance(value, Scalar):
                    assert TENSORRT_LLM[value.start : value.end] == value.text

    root = parse(TENSORRT_LLM)

    walk(root)
    assert [field.name for field in root.fields][:3] == ["name", "backend", "max_batch_size"]


def test_template_fields_are_named_bare_and_inside_strings() -> None:
    root = parse(TENSORRT_LLM)
    path = root.messages("parameters")[0].messages("value")[0].scalar("string_value")

    assert path is not None
    assert path.value == "${engine_dir}/1-gpu"
    assert path.templates == ("engine_dir",)
    assert root.messages("dynamic_batching")[0].scalar("preferred_batch_size").templates == (  # type: ignore[union-attr]
        "triton_max_batch_size",
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: 1 b: 2",
        "a: 1, b: 2;",
        "a: 1;b:2",
        "# only a comment",
        "",
        "\ufeffa: 1",
        "a{}",
        "a: <b: 1>",
        "a [ { b: 1 }, < b: 2 > ]",
        "a: []",
        "a: [1,2,3]",
        "a: -inf b: 1.5e-3 c: 0x1F d: 017 e: nan f: 2f",
        "a: 'it''s' \"two\"\n  # between\n 'three'",
        "[my.extension/type]: 3",
        "a:\r\n  1\r\nb: 2",
        "${block}",
        "a: ${x}${y}_z",
        'a: "\\"${x}\\n"',
    ],
)
def test_text_format_as_people_write_it_is_read(text: str) -> None:
    parse(text)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("a 1", ":1:3", "expected ':' or '{' after 'a'"),
        ("a:\n", ":2:1", "expected a value, found the end"),
        ("a {\n  b: 1\n", ":3:1", "the file ends where '}' was expected"),
        ("a: 1\n}", ":2:1", "expected a field name, found '}'"),
        ("a: [1 2]", ":1:7", "expected ',' or ']'"),
        ('a: "open\n', ":1:4", "expected a value"),
        ("a: 1\n  ?: 2", ":2:3", "expected a field name, found '?: 2'"),
        ("<html>", ":1:1", "expected a field name"),
        ("a: ${open", ":1:4", "expected a value"),
        ("a < b: 1 }", ":1:10", "expected a field name, found '}'"),
        ("a {" * (MAX_DEPTH + 2), ":1:", "nested deeper"),
    ],
)
def test_what_is_not_text_format_is_refused_with_its_place(text: str, place: str, expected: str) -> None:
    with pytest.raises(MalformedBody) as failure:
        parse(text, "safety/config.pbtxt")

    assert str(failure.value).startswith(f"safety/config.pbtxt{place}")
    assert expected in str(failure.value)
    assert "\n" not in str(failure.value)
    assert "; " in str(failure.value)


def test_a_file_of_absurd_length_is_refused() -> None:
    with pytest.raises(MalformedBody, match="too many"):
        parse(" " * (MAX_LENGTH + 1))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("12", 12),
        ("-12", -12),
        ("- 12", -12),
        ("0x1f", 31),
        ("017", 15),
        ("0", 0),
        ("1.5", None),
        ('"12"', None),
        ("${n}", None),
    ],
)
def test_whole_numbers_are_read_in_each_notation(written: str, value: int | None) -> None:
    scalar = parse(f"a: {written}").scalar("a")

    assert scalar is not None
    assert scalar.integer() == value


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_a_quoted_string_reads_back(value: str) -> None:
    scalar = parse(f"a: {quote(value)}").scalar("a")

    assert scalar is not None
    assert scalar.value == value


PIECES = st.sampled_from([*"{}<>[]:,;#\"'\\$-\n\r\t .", "a", "count", "1", "${x}", "0x1f", "'s'", "# c\n"])


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_arbitrary_text_is_read_or_refused_but_never_crashes(text: str) -> None:
    try:
        root = parse(text)
    except MalformedBody as failure:
        refused = re.match(r"config\.pbtxt:\d+:\d+: ", str(failure))
    else:
        refused = root.end == len(text)
    assert refused


FIELDS = st.sampled_from(
    ["name", "max_batch_size", "instance_group", "dynamic_batching", "count", "dims", "preferred_batch_size"]
)
WRITTEN = st.lists(st.one_of(PIECES, FIELDS, st.sampled_from(["name: 'a'", "max_batch_size : - 1", "dims:[1,2]"])))


@given(WRITTEN.map(" ".join))
def test_what_protobuf_reads_is_read(text: str) -> None:
    try:
        text_format.Parse(text, model_config_pb2.ModelConfig())
    except (text_format.ParseError, ValueError):
        return

    parse(text)


def test_the_time_to_parse_grows_with_the_length_only() -> None:
    def seconds(count: int) -> float:
        text = 'parameters { key: "a" value { string_value: "${b}" } } # c\n' * count
        started = time.thread_time()
        parse(text)
        return time.thread_time() - started

    small = min(seconds(500) for _ in range(3))

    assert min(seconds(4000) for _ in range(3)) < 8 * small * 3


def test_a_list_keeps_its_items_in_order() -> None:
    value = parse("a: [ 1, ${x}, 3 ]").fields[0].value

    assert isinstance(value, ListValue)
    assert [item.text for item in value.items if isinstance(item, Scalar)] == ["1", "${x}", "3"]
