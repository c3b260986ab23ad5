from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from xml.etree.ElementTree import Element

import html5lib

from diagnostics.checks.check import Fires, Quiet
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.run import Result
from diagnostics.render.explanation.html import html
from diagnostics.render.plain import clean
from tests.render.situations import HOSTILE, situations

OWN_SCRIPTS = 1
# Situations live as long as the tests, and parsing a page takes longer than making it.
_PARSED: dict[int, Element] = {}


def parsed(explanation: Explanation) -> Element:
    """Return the page as a browser's parser sees it; what is not HTML fails the test."""
    if id(explanation) not in _PARSED:
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        _PARSED[id(explanation)] = parser.parse(html(explanation))
    return _PARSED[id(explanation)]


def named(page: Element, tag: str) -> list[Element]:
    return [one for one in page.iter() if isinstance(one.tag, str) and one.tag.rpartition("}")[2] == tag]


def text_of(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_it_is_one_valid_document_without_elements_that_a_name_made(situation: Explanation) -> None:
    page = parsed(situation)

    assert len(named(page, "script")) == OWN_SCRIPTS
    assert len(named(page, "style")) == 1
    assert not named(page, "b") + named(page, "img") + named(page, "iframe")


def test_no_element_has_a_handler_or_a_style_of_its_own(situation: Explanation) -> None:
    attributes = {name for element in parsed(situation).iter() for name in element.attrib}

    assert not {name for name in attributes if name.startswith("on") or name == "style"}


def test_it_needs_nothing_from_outside(situation: Explanation) -> None:
    page = parsed(situation)
    targets = [value for one in page.iter() for name, value in one.attrib.items() if name in ("href", "src", "action")]

    assert not [target for target in targets if not target.startswith("#") and target != "data:,"]
    assert "url(" not in named(page, "style")[0].text.replace("url(#", "")  # type: ignore[union-attr]


def test_the_policy_allows_its_own_style_and_script_and_nothing_else(degraded: Explanation) -> None:
    page = parsed(degraded)
    (policy,) = [one.attrib["content"] for one in named(page, "meta") if "http-equiv" in one.attrib]
    for tag in ("style", "script"):
        digest = hashlib.sha256((named(page, tag)[0].text or "").encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy

    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_ids_are_unique_and_references_lead_somewhere(situation: Explanation) -> None:
    page = parsed(situation)
    ids = [one.attrib["id"] for one in page.iter() if "id" in one.attrib]
    wanted = {one.attrib["aria-labelledby"] for one in page.iter() if "aria-labelledby" in one.attrib}
    wanted |= {one.attrib["href"][1:] for one in named(page, "a")}

    assert len(ids) == len(set(ids))
    assert wanted <= set(ids)


def test_hostile_names_read_as_they_are() -> None:
    for kind, name in HOSTILE.items():
        read = name.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
        page = parsed(situations()[f"hostile {kind}"])
        assert " ".join(clean(read).split()) in text_of(named(page, "h1")[0]), kind


def test_no_character_reorders_or_controls_the_page(situation: Explanation) -> None:
    shown = html(situation)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", shown)


def test_no_picture_holds_a_number_that_is_none(situation: Explanation) -> None:
    drawn = " ".join(value for one in parsed(situation).iter() for value in one.attrib.values())

    assert not re.search(r"\b(nan|inf)\b", drawn)


def test_the_answer_comes_before_everything_else(degraded: Explanation) -> None:
    page = parsed(degraded)

    assert [text_of(one) for one in named(page, "h2")] == [
        "Where the time goes",
        "Findings",
        "Over time: safety",
        "What could not be seen",
    ]
    (answer,) = named(page, "header")
    assert "Fix raise instance_group count of safety from 1 to 2" in text_of(answer)
    assert "211 ms → 45.7 ms" in text_of(answer)


def test_the_patch_can_be_copied_whole(degraded: Explanation) -> None:
    advice = degraded.findings[0].advice
    assert advice is not None
    assert advice.patch is not None
    (shown,) = named(parsed(degraded), "pre")

    assert "".join(shown.itertext()) == advice.patch.text


def test_the_graph_marks_the_cause_in_words_for_those_who_do_not_see_it(degraded: Explanation) -> None:
    reported = [one.attrib["aria-label"] for one in parsed(degraded).iter() if one.attrib.get("role") == "listitem"]

    assert [label for label in reported if label.endswith(", the cause")] == [
        "safety: queue 170 ms, busy 94 % of 1, batch 1 of 1, the cause"
    ] * 2  # along x, and along y
    assert len(reported) == 8


def test_an_interval_without_an_end_is_reported_as_such() -> None:
    rows = [text_of(one) for one in named(parsed(situations()["infinite ends"]), "tr")]

    assert [row for row in rows if "100 ms to no limit" in row]


def test_entries_beyond_the_drawn_ones_are_in_a_table() -> None:
    page = parsed(situations()["many models"])

    assert len([one for one in named(page, "article") if one.attrib["class"] == "entry"]) == 3
    assert "37 more that are called" in text_of(page)


def test_what_a_check_says_of_another_version_is_no_reason_against_what_it_found(degraded: Explanation) -> None:
    found = next(result for result in degraded.results if isinstance(result.outcome, Fires))
    other = Result(
        check=found.check,
        subject=replace(found.subject, version="0"),
        outcome=Quiet(because="that version idles"),
        noted=found.ledger,
        entry=found.entry,
    )

    page = parsed(replace(degraded, results=(other, *degraded.results)))

    assert "Why nothing else" in text_of(page)
    assert "that version idles" not in text_of(page)


def test_the_runbook_is_in_the_page(degraded: Explanation) -> None:
    (runbook,) = [one for one in named(parsed(degraded), "details") if one.attrib.get("class") == "runbook"]

    assert [text_of(one) for one in named(runbook, "h4")] == ["Looks for", "Means", "Rules out", "Do", "Sources"]
    assert "`" not in text_of(runbook)
