"""Prints the size of the product and how its names are: `python -m tests.repository.measure`."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.checks.check import Layer
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.servers.catalogue import kinds_of, server_kinds
from tests.checks.new_check import TEMPLATE_MARK, drafts
from tests.repository.named import FOLDERS, PERSONAL, duplicates, knowing, personal, words
from tests.repository.source import ROOT, modules

_SOURCES = (*FOLDERS, "docs")
# A kind of server with nothing special: what knows it by name has to learn of the next one, too.
_SERVER_KIND = "SGLang"
_PAGES = "tests/collect/pages"


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield what is measured, its value, and what it should be."""
    trees = modules(*_SOURCES)
    texts = {path: (ROOT / path).read_text("utf-8") for path in trees}
    kind = next(kind for kind in server_kinds() if kind.name == _SERVER_KIND)
    named = [path for path in knowing(kind, modules(*_SOURCES, "tests")) if not path.startswith("tests/repository/")]
    pages = [
        page
        for page in (ROOT / _PAGES).glob("*.txt")
        if kind in kinds_of(ExpositionReader().read(page.read_bytes()).layout)
    ]
    by_hand = [path for path, text in drafts("a-check", Layer.SERVING).items() if TEMPLATE_MARK in text]
    used = [name for path, tree in trees.items() for name in personal(path, tree)]
    yield "source files outside tests", str(len(trees)), "450"
    yield "lines outside tests", f"{sum(len(text.splitlines()) for text in texts.values()):,}", "74,000"
    yield "public class names in several files", str(len(duplicates())), "10"
    yield "files for a new server kind", str(len(named) + len(pages)), "3"
    yield "files for a new check (by hand)", str(len(by_hand)), "1"
    for word in sorted(PERSONAL):
        yield f"identifiers with `{word}`", str(sum(word in words(name) for name in used)), "0"


def main() -> None:
    """Print the table."""
    print("| measured | now | at most |\n|---|---|---|")
    for row in rows():
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
