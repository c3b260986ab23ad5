"""The page as people see it: in a real Chromium, on a desk, on a phone, in the dark, on paper."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.pages import CAPTURES, MADE_UP, Show
from tests.render.situations import situations

PAGES = (*CAPTURES, *MADE_UP)


@pytest.mark.parametrize("name", PAGES)
def test_it_asks_for_nothing_complains_of_nothing_and_fits_screens_and_paper(show: Show, name: str) -> None:
    """A4 less its margins is 680 of the browser's pixels wide."""
    shown = show(name)
    page = shown.page
    for width in (320, 375, 768, 1100):
        page.set_viewport_size({"width": width, "height": 800})

        assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.set_viewport_size({"width": 680, "height": 800})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert [url.partition(":")[0] for url in shown.requests] == ["file"]
    assert shown.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["degraded", "cpu-handed-cold-start", "no clear cause", "many models"])
def test_it_is_accessible(show: Show, name: str, scheme: str) -> None:
    """Roles, names, order of headings and contrast, by axe-core's rules."""
    page = show(name, color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]

    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found] == []


def test_it_follows_the_schemes_of_the_system(show: Show) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (show("degraded", color_scheme=scheme).page.evaluate(ground) for scheme in ("light", "dark"))

    assert light == "rgb(252, 252, 251)"
    assert dark == "rgb(19, 22, 26)"


def test_the_answer_is_on_the_first_screen_of_a_phone(show: Show) -> None:
    page = show("degraded", 375).page

    for text in ("single-instance-serialization", "busy 94 % of the time", "raise instance_group count"):
        box = page.get_by_text(text).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 400


def test_a_phone_sees_the_graph_from_top_to_bottom(show: Show) -> None:
    page = show("degraded", 375).page

    assert page.locator(".graph.narrow").is_visible()
    assert not page.locator(".graph.wide").is_visible()


def test_the_copy_button_copies_the_patch(show: Show) -> None:
    page = show("cpu-handed-single-instance").page
    page.evaluate("document.execCommand = () => { window.copied = document.activeElement.value; return true; }")
    page.evaluate("navigator.clipboard && (navigator.clipboard.writeText = async (text) => { window.copied = text; })")

    page.get_by_role("button", name="Copy").click()
    page.wait_for_function("window.copied")

    assert page.evaluate("window.copied") == page.locator("pre").text_content()
    assert page.get_by_role("button", name="Copied").is_visible()


def test_without_scripts_nothing_is_missing_but_the_button(show: Show) -> None:
    page = show("cpu-handed-single-instance", java_script_enabled=False).page

    assert page.locator("pre").is_visible()
    assert page.locator("button").count() == 1
    assert not page.locator("button").is_visible()
    page.get_by_text("Runbook:").click()
    assert page.get_by_role("heading", name="Rules out").is_visible()


def test_one_click_selects_the_whole_patch(show: Show) -> None:
    page = show("cpu-handed-single-instance", java_script_enabled=True).page
    page.locator("pre").click()

    assert page.evaluate("getSelection().toString()").strip() == (page.locator("pre").text_content() or "").strip()


def test_the_keyboard_reaches_the_findings_first_then_everything(show: Show) -> None:
    page = show("cpu-handed-single-instance").page
    focused = "document.activeElement.textContent.trim().split('\\n')[0]"

    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Skip to the findings"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "findings"
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focused))
    assert "Copy" in reached
    assert [text for text in reached if text.startswith("Runbook")]


def test_paper_shows_what_the_screen_folds_away(show: Show) -> None:
    page = show("cpu-handed-single-instance", color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    assert page.get_by_role("heading", name="Rules out").is_visible()
    assert not page.locator("button").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")


def test_names_are_read_out_not_run(show: Show) -> None:
    page = show("hostile markup").page

    assert page.get_by_role("heading", level=1).text_content() == situations()["hostile markup"].findings[0].summary
    assert page.locator("script").count() == 1
