from __future__ import annotations

import math
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader, Series

PAGE = b"""\
# HELP nv_inference_count Number of inferences
# TYPE nv_inference_count counter
nv_inference_count{model="chat",version="1"} 150
nv_inference_count{model="safety",version="1"} 140
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us_count{model="chat",version="1"} 0
nv_inference_request_summary_us{model="chat",version="1",quantile="0.5"} Nan

nv_cpu_utilization 0.25
"""


def read(body: bytes):
    return ExpositionReader().read(body)


def as_pairs(snapshot):
    return [
        (series.name, dict(series.labels), value)
        for series, value in zip(snapshot.layout.series, snapshot.values, strict=True)
    ]


def test_a_page_becomes_series_values_and_types():
    snapshot = read(PAGE)

    assert snapshot.layout.series[1] == Series(name="nv_inference_count", labels={"model": "safety", "version": "1"})
    assert list(snapshot.values[:3]) == [150, 140, 0]
    assert math.isnan(snapshot.values[3])
    assert snapshot.layout.by_name["nv_inference_count"] == (0, 1)
    assert snapshot.layout.types == {
        "nv_inference_count": "counter",
        "nv_inference_request_summary_us": "summary",
    }


def test_scrapes_with_the_same_series_share_one_layout_and_keep_their_own_values():
    reader = ExpositionReader()
    first = reader.read(PAGE)
    second = reader.read(PAGE.replace(b" 150", b" 151").replace(b"Nan", b"12.5"))

    assert second.layout is first.layout
    assert (first.values[0], second.values[0], second.values[3]) == (150, 151, 12.5)
    assert math.isnan(first.values[3])


def test_a_changed_help_text_keeps_the_layout():
    reader = ExpositionReader()

    assert reader.read(PAGE).layout is reader.read(PAGE.replace(b"Number of", b"Count of")).layout


def test_a_new_model_makes_a_new_layout_and_old_series_stay_the_same_objects():
    reader = ExpositionReader()
    before = reader.read(PAGE)
    after = reader.read(
        PAGE.replace(b"# TYPE nv_inference_req", b'nv_inference_count{model="new"} 1\n# TYPE nv_inference_req')
    )

    assert after.layout is not before.layout
    assert after.layout.by_name["nv_inference_count"] == (0, 1, 2)
    assert after.layout.series[0] is before.layout.series[0]


def test_a_model_that_vanishes_and_another_that_takes_its_line_are_distinguished():
    reader = ExpositionReader()
    reader.read(PAGE)
    after = reader.read(PAGE.replace(b'model="safety"', b'model="guard"'))

    assert after.layout.series[1].labels["model"] == "guard"


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        (rb'x{a="q\"b",c="b\\s",d="l\nf"} 1', ("x", {"a": 'q"b', "c": "b\\s", "d": "l\nf"}, 1.0)),
        (rb'x{a="n\\not a line feed"} 1', ("x", {"a": "n\\not a line feed"}, 1.0)),
        (b'x{a="}{, ="} 1', ("x", {"a": "}{, ="}, 1.0)),
        (b'  x { a = "1" , } \t 2e-3', ("x", {"a": "1"}, 0.002)),
        (b"x{} 1", ("x", {}, 1.0)),
        (b"x +Inf", ("x", {}, math.inf)),
        (b"x -Inf", ("x", {}, -math.inf)),
        (b"x 1.8446744073709552e+19 1395066363000", ("x", {}, 1.8446744073709552e19)),
        (b'x_bucket{le="1"} 3 # {trace_id="ab"} 0.67 1520879607.789', ("x_bucket", {"le": "1"}, 3.0)),
        (b"x 5\r", ("x", {}, 5.0)),
        ('x{a="naïve"} 1'.encode(), ("x", {"a": "naïve"}, 1.0)),
    ],
)
def test_every_form_of_a_sample_line_is_read(line, pair):
    assert as_pairs(read(line + b"\n")) == [pair]


@pytest.mark.parametrize("body", [b"", b"\n", b"# EOF", b"# HELP x y\n# TYPE x counter\n"])
def test_a_page_without_samples_is_an_empty_snapshot(body):
    assert list(read(body).values) == []


def test_of_a_repeated_series_the_last_value_counts_in_every_scrape():
    reader = ExpositionReader()

    assert as_pairs(reader.read(b"x 1\nx 2\n")) == [("x", {}, 2.0)]
    assert as_pairs(reader.read(b"x 9\nx 2\n")) == [("x", {}, 2.0)]


@pytest.mark.parametrize(
    ("body", "where", "seen"),
    [
        (b"<!DOCTYPE html>\n<html>", "line 1", "<!DOCTYPE html>"),
        (b'x 1\ny{a="b"} ', "line 2", 'y{a="b"} '),
        (b"x 1\ny 12", "line 2", "y 12"),
        (b'{"error": "no"}\n', "line 1", '{"error": "no"}'),
        (b"x 1\n\xff\xfe\n\0\n", "line 2", "\\\\xff"),
    ],
)
def test_what_is_no_page_is_refused_with_its_line_and_what_was_seen(body, where, seen):
    with pytest.raises(MalformedBody) as failure:
        read(body)

    assert str(failure.value).startswith(f"{where}: ")
    assert seen in str(failure.value)
    assert str(failure.value).isprintable()


@pytest.mark.parametrize(
    ("line", "named", "seen"),
    [
        (b'y{a="b"', "'y'", 'y{a="b"'),
        (b"y", "'y'", "y"),
        (b"x 1_000", "'x'", "x 1_000"),
        (b"x 1 2 3", "'x'", "x 1 2 3"),
        (b"x\x00 1", "'x'", "x\\x00 1"),
        (b"x{a=b} 1", "'x{a=b}'", "x{a=b}"),
        (b"\xff\xfe", "'\\\\xff\\\\xfe'", "\\\\xff"),
        (b'x{a="\xff"} 1', "'x{a=\"\\\\xff\"}'", "\\\\xff"),
        (b"x\x1b[31m 1", "'x'", "x\\x1b[31m 1"),
        (b'x{a="' + b"a" * 2**17 + b'"} 1', f"""'x{{a="{"a" * 55}…'""", "64 KiB"),
    ],
)
def test_a_line_that_is_no_metric_is_left_out_and_named(line, named, seen):
    snapshot = read(b"good 1\n" + line + b"\nlast 2\n")

    assert as_pairs(snapshot) == [("good", {}, 1.0), ("last", {}, 2.0)]
    ((name, why),) = snapshot.refused.items()
    assert name == named
    assert "line 2" in why
    assert seen in why
    assert why.isprintable()


def test_a_line_that_turns_bad_and_good_again_is_left_out_for_as_long():
    reader = ExpositionReader()
    pages = [reader.read(PAGE.replace(b" 150", value)) for value in (b" 150", b" x", b" y", b" 151")]

    assert [list(page.refused) for page in pages] == [
        [],
        *[['\'nv_inference_count{model="chat",version="1"}\'']] * 2,
        [],
    ]
    assert [len(page.values) for page in pages] == [5, 4, 4, 5]
    assert list(reader.read(PAGE.replace(b" 150", b" 152")).refused) == []


def test_of_many_bad_lines_few_are_named():
    page = read(b"".join(b"good%d 1\nbad%d x\n" % (i, i) for i in range(1000)))

    assert (len(page.values), len(page.refused)) == (1000, 20)


def test_a_long_line_is_quoted_in_part():
    with pytest.raises(MalformedBody) as failure:
        read(b"!" * 10_000 + b"\n")

    assert len(str(failure.value)) < 200


def test_a_refused_body_leaves_the_reader_as_it_was():
    reader = ExpositionReader()
    before = reader.read(PAGE)
    with pytest.raises(MalformedBody):
        reader.read(PAGE.replace(b" ", b"!"))

    assert reader.read(PAGE).layout is before.layout


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True),  # `__` is reserved
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12),
    max_size=4,
)
VALUES = st.floats(-1e30, 1e30) | st.sampled_from([inf, -inf]) | st.integers(0, 2**64).map(float)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def page_of(samples) -> bytes:
    lines = []
    for name, labels, value in samples:
        inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}")
    return "".join(f"{line}\n" for line in lines).encode()


SAMPLES = st.lists(
    st.tuples(NAMES, LABELS, VALUES), max_size=8, unique_by=lambda s: (s[0], tuple(sorted(s[1].items())))
)


@given(SAMPLES)
def test_generated_pages_read_as_the_reference_parser_reads_them(samples):
    body = page_of(samples)
    reference = [
        (sample.name, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]

    assert as_pairs(read(body)) == [(name, labels, value) for name, labels, value in samples]
    assert sorted(map(repr, as_pairs(read(body)))) == sorted(map(repr, reference))


@given(SAMPLES, st.lists(VALUES, min_size=8, max_size=8))
def test_reading_incrementally_equals_reading_anew(samples, values):
    changed = [(name, labels, value) for (name, labels, _), value in zip(samples, values, strict=False)]
    reader = ExpositionReader()
    layout = reader.read(page_of(samples)).layout
    again = reader.read(page_of(changed))

    assert again.layout is layout
    assert as_pairs(again) == as_pairs(read(page_of(changed)))
