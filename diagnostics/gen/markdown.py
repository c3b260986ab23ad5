"""Tables and code in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; `|` in cells is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def code(text: str) -> str:
    """Return a block of PromQL."""
    return f"```promql\n{text}\n```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
