"""A real Chromium, and pages of it that may reach nothing but the file they show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from diagnostics.render.diff.html import diff_html
from diagnostics.render.explanation.html import html
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.browser.pages import DIFFS, FLAGS, MADE_UP, PROGRAMS, ROOT, Show, Shown
from tests.builders import explained
from tests.render.differences import differences
from tests.render.situations import situations


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = "no Chromium on PATH: apt-get install --no-install-recommends chromium-headless-shell"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what writes a page, the first time that it is asked for it, by the name of what it explains."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(name: str) -> Path:
        file = folder / f"{name.replace(' ', '-')}.html"
        file.write_text(made(name), "utf-8")
        return file

    return written


def made(name: str) -> str:
    if name in DIFFS:
        return diff_html(differences()[name.removeprefix("diff ")])
    if name in MADE_UP:
        return html(situations()[name])
    return html(explained(window_of(open_capture(ROOT / f"fixtures/captures/{name}.tar.xz").scrapes())))


@pytest.fixture
def show(chromium: Browser, file_of: Callable[[str], Path]) -> Iterator[Show]:
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
        shown.page.goto(file_of(name).as_uri())
        return shown

    yield opened
    for context in contexts:
        context.close()
