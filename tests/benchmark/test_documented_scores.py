"""The documentation shows the scores that the benchmarks have. `python -m docs.shown --scores` writes them anew."""

from __future__ import annotations

import re

import pytest

from docs.shown import ROOT, SCORES, output

# What takes longer, as `make accuracy`, is only written anew.
BLOCKS = [
    block
    for block in SCORES.finditer((ROOT / "docs/explanation/accuracy.md").read_text("utf-8"))
    if "tests.benchmark" in block["arguments"]
]


def folder(block: re.Match[str]) -> str:
    """Return the folder that a block scores."""
    return block["arguments"].rpartition("/")[2].partition(" ")[0]


@pytest.mark.parametrize("block", BLOCKS, ids=folder)
def test_the_page_shows_the_score(block: re.Match[str]) -> None:
    assert output(block) == block["output"]


def test_every_set_that_is_scored_in_seconds_is_shown() -> None:
    unnamed = {"unnamed_again", "unnamed_third", "unnamed_fourth", "unnamed_fifth"}
    assert {folder(block) for block in BLOCKS} == {"benchmark", "engine", "held_out", "kinds", *unnamed}
