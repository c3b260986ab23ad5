"""The running service's page as people use it: woken up, on a phone, with keys, in the dark, while things change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from diagnostics.diagnosis.incident import Incident
from diagnostics.service.http import live as live_board
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.store.history import History
from tests.browser.pages import Shown
from tests.render.situations import situations
from tests.service.proxy import proxy
from tests.service.serving import Serving, recorded
from tests.store.lived import NAME, deployment, live, opened, rounds

Open = Callable[..., Shown]
SLOS = (
    Slo(name="quick", objective=0.9, sli=Triton(promise=Promise.LATENCY, seconds=0.2, model="chat")),
    Slo(name="answered", objective=0.9, sli=Triton(promise=Promise.AVAILABILITY, model="chat")),
)
ODD = ("odd-markup", "odd-long", "odd-reordering")


@pytest.fixture(scope="module", autouse=True)
def _news_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_board, "PAUSE", 0.1)
        yield


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Ten minutes in which an incident opened and stayed, read again by who did not write it."""
    folder = tmp_path_factory.mktemp("history")
    made = opened(folder)
    made.start()
    list(live(made, deployment(OwnMetrics()), rounds(40, begin=time.time() - 900)))
    made.stop()
    return opened(folder)


@pytest.fixture(scope="module")
def serving(history: History) -> Iterator[Serving]:
    with Serving((NAME, "search", "lost", *ODD), history=history.reader, slos=SLOS) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        made.stated("search", situations()["healthy"])
        made.reached("lost", error="connection refused")
        for name in ODD:
            made.stated(name, situations()[f"hostile {name.removeprefix('odd-')}"])
        yield made


@pytest.fixture
def alone() -> Iterator[Serving]:
    """One deployment that is slow, and no history."""
    with Serving((NAME,)) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        yield made


@pytest.fixture
def show(chromium: Browser) -> Iterator[Open]:
    contexts = []

    def opening(address: str, width: int = 1280, height: int = 800, **options: object) -> Shown:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)  # type: ignore[arg-type]
        contexts.append(context)
        shown = Shown(context.new_page())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.on("console", lambda message: shown.messages.append(message.text))
        shown.page.on("pageerror", lambda error: shown.messages.append(str(error)))
        shown.page.on("dialog", lambda dialog: shown.messages.append(f"dialog {dialog.message}"))
        shown.page.goto(address)
        return shown

    yield opening
    for context in contexts:
        context.close()


def in_view(page: Page, text: str) -> bool:
    """Return whether a text is seen whole without scrolling."""
    box = page.get_by_text(text).first.bounding_box()
    size = page.viewport_size
    assert box is not None
    assert size is not None
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_cause_cost_time_and_remedy_are_seen_without_scrolling(
    show: Open, alone: Serving, width: int, height: int
) -> None:
    page = show(alone.url, width, height).page

    for text in ("one instance of safety busy 94 %", "raise instance_group count", "costs each request", "Since "):
        assert in_view(page, text)
    assert in_view(page, "+instance_group") or width < 400
    assert page.evaluate("scrollY") == 0


def test_what_changes_is_shown_without_reloading_and_takes_nothing_away(show: Open, alone: Serving) -> None:
    page = show(f"{alone.url}/deployments/{NAME}").page
    page.evaluate("window.same = true")
    expect(page.locator("#live")).to_have_text("Live")
    page.locator("details.runbook summary").click()
    page.get_by_role("button", name="Copy").focus()
    page.evaluate("scrollTo(0, 300)")

    alone.stated(NAME, situations()["degraded"])

    expect(page.locator("h1")).to_contain_text("busy 94 % of the time: requests wait 170 ms")
    assert page.evaluate("window.same")
    assert page.evaluate("scrollY") == 300
    assert page.locator("details.runbook").evaluate("one => one.open")
    assert page.evaluate("document.activeElement.textContent") == "Copy"


def test_a_patch_that_someone_has_selected_stays_while_the_rest_changes(show: Open, alone: Serving) -> None:
    page = show(f"{alone.url}/deployments/{NAME}").page
    page.locator("#findings pre").first.click()
    selected = page.evaluate("getSelection().toString()")

    alone.stated(NAME, situations()["degraded"])
    expect(page.locator("h1")).to_contain_text("170 ms")

    assert "+instance_group" in selected
    assert page.evaluate("getSelection().toString()") == selected


def test_it_says_when_the_service_is_gone_and_when_it_is_back(show: Open) -> None:
    first = Serving((NAME,))
    with first:
        first.stated(NAME, situations()["healthy"])
        page = show(first.url).page
        expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#stale")).to_contain_text("The service cannot be reached", timeout=10_000)
    with Serving((NAME,), port=first.port) as second:
        second.stated(NAME, situations()["degraded"])
        page.evaluate("dispatchEvent(new Event('online'))")

        expect(page.locator("#stale")).to_be_hidden(timeout=10_000)
        expect(page.locator("h1")).to_contain_text("safety")


def test_keys_move_open_search_and_go_home(show: Open, serving: Serving) -> None:
    page = show(serving.url).page
    press = page.keyboard.press
    focused = "document.activeElement.getAttribute('href')"

    press("j")
    first = page.evaluate(focused)
    press("j")
    assert page.evaluate(focused) not in (None, first)
    press("k")
    assert page.evaluate(focused) == first
    press("Enter")
    page.wait_for_url(f"**{first}")
    press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press("Escape")
    press("/")
    page.keyboard.type("batch-size")
    press("Enter")
    page.wait_for_url("**/search?q=batch-size")
    expect(page.get_by_role("link", name="batch-size-collapse")).to_be_visible()
    press("g")
    press("h")
    page.wait_for_url(f"{serving.url}/")


def test_dark_follows_the_system_until_someone_chooses(show: Open, serving: Serving) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = show(serving.url, color_scheme="dark").page
    assert page.evaluate(ground) == "rgb(19, 22, 26)"
    contrast = Axe().run(page, options={"runOnly": ["color-contrast"], "resultTypes": ["violations"]}).response
    assert contrast["violations"] == []

    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == "rgb(252, 252, 251)"
    page.reload()
    assert page.evaluate(ground) == "rgb(252, 252, 251)"
    page.keyboard.press("t")
    assert page.evaluate(ground) == "rgb(19, 22, 26)"


def incident_of(serving: Serving) -> Incident:
    return next(one for one in serving.service.board.read().incidents if one.deployment == NAME)


def pixel(page: Page, across: float, down: float) -> list[int]:
    """Return red, green, blue and opacity of the first chart at shares of its drawn width and height.

    Of a few pixels one above the other, the most opaque.
    """
    found: list[int] = page.evaluate(
        """([across, down]) => {
            const canvas = document.querySelector(".plots canvas");
            const {left, top, width, height} = canvas.parentElement.querySelector(".u-over").getBoundingClientRect();
            const at = canvas.getBoundingClientRect();
            const x = left - at.left + across * width, y = top - at.top + down * height;
            const column = canvas.getContext("2d").getImageData(Math.round(x), Math.round(y) - 2, 1, 5).data;
            const pixels = [0, 4, 8, 12, 16].map((start) => [...column.slice(start, start + 4)]);
            return pixels.reduce((most, one) => (one[3] > most[3] ? one : most));
        }""",
        [across, down],
    )
    return found


def charted(
    values: Sequence[float | None],
    incidents: Sequence[Mapping[str, object]] = (),
    marks: Sequence[Mapping[str, object]] = (),
) -> str:
    """Return what the service tells of a chart of 100 s."""
    at = [100.0 * number / (len(values) - 1) for number in range(len(values))]
    told = ["" if value is None else str(value) for value in values]
    chart = {"title": "queue", "kind": "queue", "unit": "seconds", "at": at, "values": values, "told": told}
    found = {"from": 0, "to": 100, "charts": [chart], "incidents": incidents, "marks": marks, "since": None}
    return json.dumps(found)


def test_gaps_stay_gaps_and_incidents_are_bands_at_once_light_and_dark(show: Open, serving: Serving) -> None:
    incident = {"id": "a", "title": "queue", "about": "slow", "severity": "warning", "from": 45, "to": 55}
    shown = show(serving.url)
    page = shown.page
    told = charted([0.8, 0.8, 0.8, 0.8, None, None, None, 0.8, None, 0.8, 0.8], [incident])
    page.route("**/fragments/timelines/**", lambda route: route.fulfill(body=told, content_type="application/json"))

    page.goto(f"{serving.url}/deployments/{NAME}")
    page.wait_for_selector(".plots[data-drawn]")

    # The line is at 0.8, the top 8 % above it.
    line = 0.08 / 1.08
    assert pixel(page, 0.15, line)[3] > 200
    assert pixel(page, 0.35, line)[3] == pixel(page, 0.65, line)[3] == pixel(page, 0.75, line)[3] == 0
    assert pixel(page, 0.70, line)[3] > 200
    assert 0 < pixel(page, 0.5, 0.3)[3] < 80
    light = pixel(page, 0.15, line)
    page.keyboard.press("t")
    assert pixel(page, 0.15, line) != light
    assert page.locator(".plots").evaluate("one => one.getBoundingClientRect().top > innerHeight")
    # Chromium advises who reads pixels often.
    assert [text for text in shown.messages if "getImageData" not in text] == []


def test_deploys_are_lines_and_planned_work_is_a_stretch_with_their_words_below(show: Open, serving: Serving) -> None:
    marks = [
        {"kind": "deploy", "text": "image 1.4 <b>rolled out</b>", "from": 20, "to": None},
        {"kind": "maintenance", "text": "new driver", "from": 60, "to": 80},
    ]
    shown = show(serving.url)
    page = shown.page
    told = charted([0.8, *[0.1] * 10], marks=marks)
    page.route("**/fragments/timelines/**", lambda route: route.fulfill(body=told, content_type="application/json"))

    page.goto(f"{serving.url}/deployments/{NAME}")
    page.wait_for_selector(".plots[data-drawn]")

    assert max(pixel(page, 0.2, down)[3] for down in (0.4, 0.42, 0.44, 0.46, 0.48)) > 100
    # Between the lines of the grid.
    inside, outside = (min(pixel(page, across, down)[3] for down in (0.35, 0.4, 0.45)) for across in (0.7, 0.4))
    assert 0 < inside < 80
    assert outside == 0
    listed = page.locator("ul.marks li").all_inner_texts()
    assert [text.partition("Z ")[2] for text in listed] == [
        "deploy: image 1.4 <b>rolled out</b>",
        "to Jan 01 00:01Z maintenance: new driver",
    ]
    assert "Dotted: deploys and planned work." in page.locator("[data-timeline] [role=status]").inner_text()
    assert [text for text in shown.messages if "getImageData" not in text] == []


def test_timelines_show_the_past_with_its_incidents(show: Open, serving: Serving, history: History) -> None:
    past = history.reader.incidents(deployment=NAME)[0]
    shown = show(f"{serving.url}/incidents/{past.id}")
    page = shown.page
    page.locator("[data-timeline]").scroll_into_view_if_needed()

    page.wait_for_selector(".plots[data-drawn]")

    assert page.locator(".plots canvas").count() == 5
    queue = page.locator(".plots figcaption", has_text="queue of slow").locator("b")
    assert queue.text_content() == "170 ms"
    page.locator(".plots .u-over").first.hover()
    assert " at " in (queue.text_content() or "")
    assert page.locator(f"ul.marks a[href='/incidents/{past.id}']").count() == 1
    assert "queue of slow 17" in (page.locator(".plots").get_attribute("aria-label") or "")
    assert shown.messages == []
    assert 0 < min(pixel(page, 0.98, down)[3] for down in (0.1, 0.2, 0.3)) < 80


def test_the_chosen_time_survives_a_refresh_and_leads_to_itself(show: Open, history: History) -> None:
    with Serving((NAME,), history=history.reader) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        page = show(f"{made.url}/deployments/{NAME}").page
        page.get_by_role("link", name="6 h").click()
        page.locator("select[name=model]").select_option("embedder")
        page.wait_for_url("**model=embedder**since=21600**")
        made.stated(NAME, situations()["degraded"])
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        expect(page.locator("h1")).to_contain_text("169 ms")
        page.get_by_role("link", name="Link to this time").click()
        page.wait_for_selector(".plots figcaption")

        assert "queue of embedder" in page.locator(".plots").inner_text()
        assert "since" not in page.url
        assert "&from=" in page.url
        assert page.locator("input[name=from]").input_value() != ""
        page.get_by_role("link", name="queue of embedder").click()
        assert page.url.startswith(f"{made.url}/api/v1/signals?")


def test_below_the_path_of_a_proxy_the_page_follows_asks_and_leads_on(show: Open, history: History) -> None:
    web = {"external_url": "http://diag.example/diag/", "route_prefix": "/"}
    with Serving((NAME,), history=history.reader, web=web) as made, proxy(made.port, "/diag", strips=True) as url:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        shown = show(f"{url}/deployments/{NAME}")
        page = shown.page
        expect(page.locator("#live")).to_have_text("Live")
        with page.expect_response("**/fragments/timelines/**") as answer:
            page.locator("[data-timeline]").scroll_into_view_if_needed()
        assert answer.value.ok
        page.keyboard.press("g")
        page.keyboard.press("i")
        page.wait_for_url(f"{url}/incidents")

    assert [one for one in shown.requests if not one.startswith((url, "data:"))] == []
    assert shown.messages == []


def pages_of(serving: Serving) -> list[str]:
    shown = ["/", f"/deployments/{NAME}?check=gpu-saturated", f"/incidents/{incident_of(serving).id}", "/incidents"]
    return [
        *shown,
        "/fleet",
        "/slos",
        "/search?q=safety",
        "/runbooks/cold-start",
        "/deployments/none",
        "/deployments/odd-long",
    ]


def test_nothing_leaves_the_origin_nothing_complains_and_nothing_scrolls_sideways(show: Open, serving: Serving) -> None:
    shown = show(serving.url, 360, 740)
    for path in pages_of(serving):
        shown.page.goto(serving.url + path)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= 360, path

    assert [url for url in shown.requests if not url.startswith((serving.url, "data:"))] == []
    assert [text for text in shown.messages if "404" not in text] == []


def test_it_is_accessible(show: Open, serving: Serving) -> None:
    """Roles, names, order of headings and contrast, by axe-core's rules; what the report shows is looked at there."""
    page = show(serving.url).page
    found = []
    for path in ("/", f"/deployments/{NAME}?check=gpu-saturated", "/incidents", "/fleet", "/slos"):
        page.goto(serving.url + path)
        page.evaluate("document.querySelectorAll('.entry, .finding, .charts').forEach(one => one.remove())")
        rules = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [(path, rule["id"], [node["html"][:120] for node in rule["nodes"]][:3]) for rule in rules]

    assert found == []


def test_without_scripts_everything_but_timelines_is_there(show: Open, serving: Serving) -> None:
    page = show(f"{serving.url}/deployments/{NAME}", java_script_enabled=False).page

    assert page.locator("meta[http-equiv=refresh]").count() == 1
    expect(page.locator("#findings pre")).to_be_visible()
    page.locator("#check").select_option("gpu-saturated")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("pre.account")).to_contain_text("gpu-saturated on model safety")
    assert page.locator("button:visible").count() == 4


def test_incidents_are_chosen_without_scripts_and_the_choice_is_in_the_address(show: Open, serving: Serving) -> None:
    page = show(f"{serving.url}/incidents", java_script_enabled=False).page
    every = page.locator("ul.incidents li").count()

    page.get_by_label("Deployment").select_option(NAME)
    page.get_by_label("State").select_option("open")
    page.get_by_label("Severity").select_option("critical")
    page.get_by_label("Check").select_option("single-instance-serialization")
    page.get_by_role("button", name="Choose").click()

    assert "severity=critical" in page.url
    assert 1 <= page.locator("ul.incidents li").count() < every
    assert page.get_by_label("Deployment").input_value() == NAME
    page.get_by_label("Words").fill("nowhere")
    page.get_by_role("button", name="Choose").click()
    expect(page.locator("#list")).to_contain_text("There are none.")


def test_names_are_read_out_not_run(show: Open, serving: Serving) -> None:
    shown = show(f"{serving.url}/deployments/odd-markup")

    assert shown.page.locator("h1").text_content() == situations()["hostile markup"].findings[0].summary
    assert shown.page.locator("main script").count() == 0
    assert shown.messages == []


def test_paper_shows_the_answer_without_the_controls(show: Open, alone: Serving) -> None:
    page = show(f"{alone.url}/deployments/{NAME}", color_scheme="dark").page
    page.emulate_media(media="print")

    assert not page.locator("header.top").is_visible()
    assert page.locator("#findings pre").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
