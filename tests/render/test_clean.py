from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from diagnostics.render.plain import clean, code_lines, fitted
from tests.render.widths import columns

ANY = st.text(st.characters(exclude_categories=[]))


@given(ANY)
def test_cleaned_text_can_always_be_printed_on_one_line(text: str) -> None:
    shown = clean(text)

    assert not [char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert shown.encode() is not None
    assert len(shown.splitlines()) <= 1


@given(ANY, st.integers(1, 40))
def test_fitted_text_never_exceeds_its_columns(text: str, room: int) -> None:
    assert columns(fitted(text, room)) <= room


def test_text_that_fits_stays_whole() -> None:
    assert fitted("safety", 6) == "safety"
    assert fitted("safety2", 6) == "safet…"
    assert fitted("模型模型", 6) == "模型…"


def test_what_reorders_a_line_becomes_visible() -> None:
    assert clean("a\u202eb\x1b[31m") == "a\\u202eb\\x1b[31m"


def test_lines_to_apply_keep_tabs_and_carriage_returns_at_their_end_only() -> None:
    assert code_lines("+\tcount: 2\r\n-a\rb\x1b\n") == ["+\tcount: 2\r", "-a\\rb\\x1b"]


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126))))
def test_lines_of_plain_text_come_back_unchanged(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)

    assert "".join(f"{line}\n" for line in code_lines(text)) == (text or "\n")
