"""Sentences that people read are short and plain."""

from __future__ import annotations

import re

import pytest
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile, LintResult

from tests.repository.pages import without_code, written
from tests.repository.source import ROOT

LONGEST_SENTENCE = 20
# Riddles, and words that make a program a person.
_BANNED = (
    r"is none\b",
    r"\bnone where\b",
    r"no such thing",
    r"\bwhat is not .* is none",
    r"as .* does? it\b",
    r"\b(?:is|are) told\b",
    r"is said (?:that|to)",
    r"\bservers? says?\b",
    r"\brequests? finds?\b",
    r"\butili[sz]e\b",
    r"\b(?:simply|easily|obviously|just(?!-in-time))\b",
    r"\bplease\b",
)
CheckRegistry().register_many(__register__)
# Docstrings of checks and rules, as pages.
_GENERATED_PAGES = sorted(
    name
    for folder in ("docs", "rules")
    for path in (ROOT / folder).rglob("*.md")
    if (name := path.relative_to(ROOT).as_posix()) not in written()
)
_PAGES = (*written(), *_GENERATED_PAGES, "CHANGELOG.md")
# Signs of typesetters: the pages have those of a keyboard.
_TYPOGRAPHY = "typography.symbols"
# A reference to an issue, as server#7650, begins a sentence, too.
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"(\[*0-9]|[\w-]+#\d|$)|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")


def sentences(text: str) -> list[str]:
    """Return the sentences of a page: no code, tables, headings or targets of links."""
    text = re.sub(r"<!-- .*? -->", "", without_code(text), flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(?:\||#)", line)]
    return [" ".join(one.split()) for one in _END.split("\n".join(lines)) if one.strip()]


def proselinted(text: str) -> list[LintResult]:
    """Return what proselint finds in prose."""
    found = LintFile("page", text).lint(DEFAULT) if text else []
    return [one for one in found if not one.check_result.check_path.startswith(_TYPOGRAPHY)]


def _page(name: str) -> str:
    return written()[name] if name in written() else (ROOT / name).read_text("utf-8")


def words(sentence: str) -> int:
    return len(re.findall(r"\w[\w'.,/%-]*", sentence))


def test_sentences_are_short() -> None:
    every = ((name, one) for name in _PAGES for one in sentences(_page(name)))
    assert [(name, one) for name, one in every if words(one) > LONGEST_SENTENCE] == []


def test_sentences_are_plain() -> None:
    texts = {name: " ".join(sentences(_page(name))) for name in _PAGES}
    banned = re.compile("|".join(_BANNED), re.IGNORECASE)
    assert [(name, found[0]) for name, text in texts.items() for found in banned.finditer(text)] == []


@pytest.mark.parametrize("name", _PAGES)
def test_writers_of_english_have_nothing_to_say(name: str) -> None:
    text = "\n\n".join(sentences(_page(name)))
    assert [(found.check_result.message, *found.pos) for found in proselinted(text)] == []


def test_the_linter_of_prose_reads_what_it_is_given() -> None:
    assert {found.check_result.check_path for found in proselinted("A very unique server. It is in close proximity.")}


def test_a_long_sentence_and_a_riddle_are_noticed() -> None:
    long = " ".join(["word"] * 21)
    assert [words(one) for one in sentences(f"# Title\n\nShort one. {long.capitalize()}.\n")] == [2, 21]
    assert any(re.search(phrase, "It is told that the server says so.", re.IGNORECASE) for phrase in _BANNED)
