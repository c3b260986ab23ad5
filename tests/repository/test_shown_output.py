"""What the README and the documentation show is what the commands print. `python -m docs.shown` writes it anew."""

from __future__ import annotations

import re

import pytest

from docs.shown import BLOCK, output, pages
from tests.repository.source import ROOT

BLOCKS = [block for page in pages() for block in BLOCK.finditer(page.read_text("utf-8"))]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["arguments"].split()[0])
def test_a_page_shows_what_its_command_prints(block: re.Match[str]) -> None:
    assert output(block) == block["output"]


def test_every_command_whose_output_is_worth_a_look_is_shown() -> None:
    verbs = {block["arguments"].split()[0] for block in BLOCKS}
    assert verbs == {"explain", "slo", "lint", "bench", "whatif", "tune", "verify"}


def test_the_readme_shows_real_output_on_its_first_screen() -> None:
    assert (ROOT / "README.md").read_text("utf-8").index("$ diag") < 1000
