"""The block of docs/explanation/predictions.md that is written by the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnostics.errors import UsageError

BEGIN, END = "<!-- bench-prediction: begin -->", "<!-- bench-prediction: end -->"


def write_block(readme: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the two markers of a file.

    Raises:
        UsageError: the file lacks them.

    """
    text = readme.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"lacks the lines {BEGIN} and {END}", where=str(readme))
    readme.write_text("\n".join([before + begin, *lines, end + after]), "utf-8")
