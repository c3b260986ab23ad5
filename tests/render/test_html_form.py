"""Forms of any document: as a page every block is there, names from servers stay text, and a form is one module."""

from __future__ import annotations

from pathlib import Path

import html5lib
import pytest

from diagnostics.render import formats
from diagnostics.render.document import (
    Code,
    Document,
    Heading,
    Headline,
    Point,
    Points,
    Sentence,
    Table,
    TableColumn,
)
from diagnostics.render.formats import form_names, written

EVIL = "<img src=x onerror=1>"
DOCUMENT: Document = [
    Headline(text="it is slow", verdict="worse", colour="red"),
    Heading(text="Where:"),
    Sentence(text=EVIL),
    Sentence(text=""),
    Points(items=("first", Point(text="within", depth=1, strong=True)), title="what to do"),
    Points(items=()),
    Table(columns=[TableColumn(head="stage"), TableColumn(head="time", right=True)], rows=[(EVIL, "3 ms")]),
    Code(text="-a\n+b", language="diff"),
]


def shown(*path: str) -> list[str]:
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(written(DOCUMENT, "html"))
    return ["".join(one.itertext()) for one in page.iterfind(".//" + "/".join(path))]


def test_every_block_is_on_the_page() -> None:
    assert shown("title") == shown("h1") == ["it is slow"]
    assert shown("h2") == ["Where"]
    assert shown("main", "p") == [f"{EVIL}."]
    assert shown("li", "ul", "li", "strong") == ["within"]
    assert shown("th") == ["stage", "time"]
    assert shown("td") == [EVIL, "3 ms"]
    assert shown("pre", "span[@class='removed']") == ["-a"]
    assert shown("pre", "span[@class='added']") == ["+b"]
    assert not shown("img")


@pytest.fixture
def own_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shouted.py").write_text("def write(document): return document[0].text.upper()\n")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    return "shouted"


def test_a_module_is_all_that_a_form_needs(own_form: str) -> None:
    assert own_form in form_names()
    assert written(DOCUMENT, own_form) == "IT IS SLOW"
