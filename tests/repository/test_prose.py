"""Sentences that people read are short and plain."""

from __future__ import annotations

import re

import pytest
from pages import without_code, written

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
    r"\b(?:simply|easily|obviously|just)\b",
    r"\bplease\b",
)
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"(\[*0-9]|$)|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")


def sentences(text: str) -> list[str]:
    """Return the sentences of a page: no code, tables, headings or targets of links."""
    text = re.sub(r"<!-- .*? -->", "", without_code(text), flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(?:\||#)", line)]
    return [" ".join(one.split()) for one in _END.split("\n".join(lines)) if one.strip()]


def words(sentence: str) -> int:
    return len(re.findall(r"\w[\w'.,/%-]*", sentence))


@pytest.mark.parametrize("name", written())
def test_sentences_are_short(name: str) -> None:
    assert not [one for one in sentences(written()[name]) if words(one) > LONGEST_SENTENCE]


@pytest.mark.parametrize("name", written())
def test_sentences_are_plain(name: str) -> None:
    text = " ".join(sentences(written()[name]))
    assert not [found[0] for phrase in _BANNED for found in re.finditer(phrase, text, re.IGNORECASE)]


def test_a_long_sentence_and_a_riddle_are_noticed() -> None:
    long = " ".join(["word"] * 21)
    assert [words(one) for one in sentences(f"# Title\n\nShort one. {long.capitalize()}.\n")] == [2, 21]
    assert any(re.search(phrase, "It is told that the server says so.", re.IGNORECASE) for phrase in _BANNED)
