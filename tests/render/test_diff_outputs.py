from __future__ import annotations

import re

import html5lib
import jsonschema
import pytest

from diagnostics.diagnosis.diff import WindowDiff
from diagnostics.render.diff.document import diff_document
from diagnostics.render.diff.html import diff_html
from diagnostics.render.diff.json import diff_report, diff_schema
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from tests.render.differences import NAMES, differences
from tests.render.schemas import closed
from tests.render.situations import HOSTILE, as_json

each = pytest.mark.parametrize("name", NAMES)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def of(name: str) -> WindowDiff:
    return differences()[name]


@each
def test_every_difference_meets_the_schema(name: str) -> None:
    jsonschema.validate(as_json(diff_report(of(name))), closed(diff_schema()))


def test_the_schema_refuses_what_is_no_difference() -> None:
    report = diff_report(of("faster"))

    for wrong in ({**report, "outcome": "better"}, {**report, "schema_version": 2}, {**report, "entries": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(as_json(wrong), closed(diff_schema()))


@each
def test_the_page_is_one_valid_document_without_elements_that_a_name_made(name: str) -> None:
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(diff_html(of(name)))
    tags = [one.tag for one in page.iter() if isinstance(one.tag, str)]
    ids = [one.attrib["id"] for one in page.iter() if "id" in one.attrib]
    attributes = {key for one in page.iter() for key in one.attrib}

    assert tags.count("script") == 1
    assert not {"b", "img", "iframe"} & set(tags)
    assert len(ids) == len(set(ids))
    assert not {key for key in attributes if key.startswith("on") or key == "style"}


@each
def test_no_character_reorders_or_controls_what_is_shown(name: str) -> None:
    assert not UNSAFE.search(diff_html(of(name)))
    assert not UNSAFE.search(as_markdown(diff_document(of(name))))


@each
def test_no_output_shows_a_number_that_is_none(name: str) -> None:
    for shown in (
        as_markdown(diff_document(of(name))),
        re.sub(r"<(style|script)>.*?</\1>", "", diff_html(of(name)), flags=re.S),
    ):
        assert not re.search(r"\b(nan|inf|None)\b", shown)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_table_of_markdown_keeps_its_columns_whatever_the_names_are(kind: str) -> None:
    blocks = re.findall(r"(?:^\|.*\n)+", as_markdown(diff_document(of(f"hostile {kind}"))), re.MULTILINE)

    assert blocks
    for block in blocks:
        rows = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in block.splitlines()]
        assert len(set(rows)) == 1, block


def test_markdown_tells_the_outcome_its_reason_and_what_changed() -> None:
    reported = as_markdown(diff_document(of("faster")))

    assert reported.startswith("**faster**: m: 195 ms before, 28.5 ms after (−85 %)\n")
    assert "configuration of m explains it: instance_group.count 1 → 2." in reported
    assert "- m: instance_group.count 1 → 2" in reported
    assert "- single-instance-serialization of m:" in reported


def test_text_markdown_and_page_agree_on_the_outcome() -> None:
    for name in ("faster", "slower", "unchanged", "nothing before"):
        word = {"nothing before": "not comparable"}.get(name, name)
        assert as_markdown(diff_document(of(name))).startswith(f"**{word}**: ")
        assert f'<span class="badge">{word}</span>' in diff_html(of(name))
        assert diff_report(of(name))["outcome"] == word
        assert as_text(diff_document(of(name))).startswith(f"{word}: ")


def test_what_was_called_in_one_window_only_is_named() -> None:
    for shown in (as_markdown(diff_document(of("other models"))), diff_html(of("other models"))):
        assert "called only before: m" in shown
        assert "called only after: chat" in shown
