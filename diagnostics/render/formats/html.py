"""A document as one HTML file that needs nothing else. Bars are left out: a table holds their numbers."""

from __future__ import annotations

from diagnostics.render.document import Document, Headline, Point, Points
from diagnostics.render.html_page import page

# The colours of a terminal as the tones that pages have.
_TONES = {"red": "critical", "yellow": "warning", "green": "healthy"}


def write(document: Document) -> str:
    """Return the document as a page; its title is the first headline."""
    title = next((block.text for block in document if isinstance(block, Headline)), "diag")
    blocks = [(type(block).__name__, block) for block in document]
    return page("document.html", title=title, blocks=blocks, tones=_TONES, grouped=_grouped)


def _grouped(block: Points) -> list[tuple[Point, list[Point]]]:
    """Return the points, each with those that belong to it."""
    found: list[tuple[Point, list[Point]]] = []
    for point in block.points():
        if point.depth and found:
            found[-1][1].append(point)
        else:
            found.append((point, []))
    return found
