"""The blocks of docs/explanation/predictions.md that are written by the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnostics.errors import UsageError

STAGES, ENGINES = "bench-prediction", "engine-prediction"


def write_block(readme: Path, lines: Sequence[str], name: str = STAGES) -> None:
    """Replace what stands between the two markers of a file that carry this name.

    Raises:
        UsageError: the file lacks them.

    """
    before, _, after = _parts(readme, name)
    begin, end = _markers(name)
    readme.write_text("\n".join([before + begin, *lines, end + after]), "utf-8")


def block_lines(readme: Path, name: str) -> list[str]:
    """Return the lines between the two markers of a file.

    Raises:
        UsageError: the file lacks them.

    """
    return _parts(readme, name)[1].strip("\n").split("\n")


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def _parts(readme: Path, name: str) -> tuple[str, str, str]:
    """Return what stands before, between and after the markers."""
    first, last = _markers(name)
    before, begin, rest = readme.read_text("utf-8").partition(first)
    between, end, after = rest.partition(last)
    if not begin or not end:
        raise UsageError(f"lacks the lines {first} and {last}", where=str(readme))
    return before, between, after
