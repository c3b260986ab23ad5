"""The page of two windows as people see it: in a real Chromium, on a desk, on a phone, in the dark, on paper."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.pages import DIFFS, Show


@pytest.mark.parametrize("name", DIFFS)
def test_it_asks_for_nothing_complains_of_nothing_and_never_scrolls_sideways(show: Show, name: str) -> None:
    shown = show(name)

    for width in (320, 375, 768, 1100):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    assert [url.partition(":")[0] for url in shown.requests] == ["file"]
    assert shown.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["diff faster", "diff nothing before", "diff hostile long"])
def test_it_is_accessible(show: Show, name: str, scheme: str) -> None:
    page = show(name, color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]

    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found] == []


def test_the_answer_is_on_the_first_screen_of_a_phone(show: Show) -> None:
    page = show("diff faster", 375).page

    for text in ("195 ms before, 28.5 ms after", "instance_group.count 1 → 2"):
        box = page.get_by_text(text).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 400


def test_both_bars_share_one_axis(show: Show) -> None:
    axes = show("diff faster").page.locator(".axis").all_text_contents()

    assert len(axes) == 2
    assert axes[0] == axes[1]


def test_paper_shows_what_the_screen_folds_away(show: Show) -> None:
    page = show("diff faster", color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    assert page.get_by_role("columnheader", name="phase").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
