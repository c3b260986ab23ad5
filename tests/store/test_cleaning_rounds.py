"""Bodies that come again with other numbers are searched for secrets once, and anew as soon as their text differs."""

from __future__ import annotations

import pytest

from diagnostics.store import recorder
from diagnostics.store.recorder import Cleaner
from diagnostics.wire.records import BodyKind, Scrape


def page(body: bytes) -> Scrape:
    return Scrape(server="t", kind=BodyKind.METRICS, at=0.0, mono=0.0, body=body)


def test_other_numbers_are_no_reason_to_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Scrape] = []

    def search(scrape: Scrape) -> Scrape:
        searched.append(scrape)
        return scrape

    monkeypatch.setattr(recorder, "redact", search)
    cleaner = Cleaner()
    for body in (b'a{b="c"} 1\nd 2.5e+3\n', b'a{b="c"} -7\nd 4\n', b'{"a":1,"b":[2,3]}', b'{"a":10,"b":[-2,3e9]}'):
        cleaner.clean(page(body))
    assert len(searched) == 2


def test_a_secret_that_comes_later_is_taken_out() -> None:
    cleaner = Cleaner()
    harmless = page(b'up{place="482912"} 1\n')
    assert cleaner.clean(harmless) is harmless
    assert b"482913" not in (cleaner.clean(page(b'up{password="482913"} 1\n')).body or b"")
