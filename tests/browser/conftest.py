"""A real Chromium, and pages of it that may reach nothing but the file they show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from diagnostics.render.diff_html import diff_html
from diagnostics.render.html import html
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.browser.pages import CAPTURES, DIFFS, FLAGS, MADE_UP, PROGRAMS, ROOT, Show, Shown
from tests.builders import explained
from tests.render.differences import differences
from tests.render.situations import situations


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = "no Chromium on PATH: apt-get install --no-install-recommends chromium"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a file per page, by the name of what it explains."""
    folder = tmp_path_factory.mktemp("pages")
    explanations = {name: situations()[name] for name in MADE_UP}
    for name in CAPTURES:
        capture = open_capture(ROOT / f"fixtures/captures/{name}.tar.xz")
        explanations[name] = explained(window_of(capture.scrapes()))
    made = {name: html(explanation) for name, explanation in explanations.items()}
    made |= {name: diff_html(differences()[name.removeprefix("diff ")]) for name in DIFFS}
    found = {}
    for number, (name, text) in enumerate(made.items()):
        found[name] = folder / f"{number}.html"
        found[name].write_text(text, "utf-8")
    return found


@pytest.fixture
def show(chromium: Browser, files: dict[str, Path]) -> Iterator[Show]:
    """Open the page of a name; keywords are the browser's (width, color_scheme, java_script_enabled)."""
    contexts = []

    def opened(name: str, width: int = 1100, **options: object) -> Shown:
        context = chromium.new_context(viewport={"width": width, "height": 800}, **options)  # type: ignore[arg-type]
        contexts.append(context)
        shown = Shown(context.new_page())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.on("console", lambda message: shown.messages.append(message.text))
        shown.page.on("pageerror", lambda error: shown.messages.append(str(error)))
        shown.page.on("dialog", lambda dialog: shown.messages.append(f"dialog {dialog.message}"))
        shown.page.goto(files[name].as_uri())
        return shown

    yield opened
    for context in contexts:
        context.close()
