"""A check's runbook as parts of a page: headings, paragraphs, lists; code spans kept apart from text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.checks.catalogue import RegisteredCheck

_ITEM = re.compile(r"(?:-|\d{1,9}\.) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph, or a list of several lines. Every line alternates text and code, text first."""

    kind: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookSection:
    """A section of a runbook."""

    heading: str
    blocks: tuple[Paragraph, ...]


def parts(check: RegisteredCheck) -> tuple[RunbookSection, ...]:
    """Return the sections of a check's runbook in order."""
    return tuple(RunbookSection(heading=heading, blocks=_blocks(text)) for heading, text in check.sections().items())


def _blocks(text: str) -> tuple[Paragraph, ...]:
    return tuple(block for chunk in re.split(r"\n(?:[^\S\n]*\n)+", text) for block in _split(chunk.splitlines()))


def _split(lines: Sequence[str]) -> list[Paragraph]:
    """Return the blocks of a chunk: a paragraph, a list, or a list right under its sentence."""
    items: list[str] = []
    before: list[str] = []
    for line in map(str.strip, lines):
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        elif items:
            items[-1] = f"{items[-1]} {line}"
        else:
            before.append(line)
    kind = "ol" if re.search(r"^\s*\d+\. ", "\n".join(lines), re.MULTILINE) else "ul"
    blocks = [Paragraph(kind="p", lines=(_spans(" ".join(before)),))] if before else []
    return [*blocks, Paragraph(kind=kind, lines=tuple(map(_spans, items)))] if items else blocks


def _spans(text: str) -> tuple[str, ...]:
    return tuple(text.split("`"))
