from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.gen.yaml_text import yaml_text

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_TREES = st.recursive(
    _TEXT | st.integers() | st.booleans() | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(_TREES)
def test_any_tree_is_read_back_as_it_was(tree: object) -> None:
    assert yaml.safe_load(yaml_text(tree)) == tree


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "Null",
        "off",
        "1",
        "1e5",
        "0x10",
        "2m",
        "12:30",
        "~",
        "- a",
        "a: b",
        "#",
        "a\nb",
        " a ",
        "'",
        '"',
        "\x85",
    ],
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert yaml.safe_load(yaml_text({"key": text, text: "value"})) == {"key": text, text: "value"}


def test_keys_keep_their_order_and_lists_are_indented_below_their_key() -> None:
    assert yaml_text({"b": 1, "a": [{"x": "one"}, []]}) == "b: 1\na:\n  - x: one\n  - []\n"


def test_an_expression_with_quotes_is_readable() -> None:
    assert yaml_text({"expr": 'up{job="triton"} == 0'}) == "expr: 'up{job=\"triton\"} == 0'\n"
