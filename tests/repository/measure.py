"""Prints the size of the product and how its names are: `python -m tests.repository.measure`."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.checks.check import Layer
from tests.checks.new_check import TEMPLATE_MARK, drafts
from tests.repository.named import FOLDERS, PERSONAL, duplicates, personal, words
from tests.repository.source import ROOT, modules

_SOURCES = (*FOLDERS, "docs")
# The kind of server that came last: what knows it by name has to learn of the next one, too.
_SERVER_KIND = "sglang"


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield what is measured, its value, and what it should be."""
    trees = modules(*_SOURCES)
    texts = {path: (ROOT / path).read_text("utf-8") for path in trees}
    named = [path for path, text in texts.items() if _SERVER_KIND in f"{path} {text}".lower() and "/lint/" not in path]
    pages = list((ROOT / "tests/collect/pages").glob(f"{_SERVER_KIND}*"))
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
