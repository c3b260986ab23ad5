"""Draws the pictures of the documentation in a real Chromium.

    python -m tests.browser.draw [NAME …]

`report` is the page of the incident that the README explains. `service` is `diag serve` beside a real Triton that is
slow, which takes two minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from diagnostics.demo.environment import find_environment
from diagnostics.demo.faults import load_fault
from diagnostics.demo.server import TritonLauncher
from tests.browser.pages import FLAGS, PROGRAMS, ROOT
from tests.collect.fake_triton import free_ports
from tests.soak.running import DIAG, serving, under_load

FOLDER = ROOT / "docs/pictures"
RECORDED = "fixtures/captures/cpu-handed-single-instance.tar.xz"
# Sharp on the screens that people have, and small enough for a repository.
_SCALE, _WIDTH = 1.5, 1100
_SLOW_SECONDS = 100.0


@contextmanager
def page(height: int) -> Iterator[Page]:
    """Open an empty page in a browser of its own."""
    program = next(filter(None, map(shutil.which, PROGRAMS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser.new_page(viewport={"width": _WIDTH, "height": height}, device_scale_factor=_SCALE)
        browser.close()


def report() -> None:
    """Draw the page of the incident that the README explains."""
    explain = (*DIAG, "explain", RECORDED, "--output", "html")
    written = subprocess.run(explain, cwd=ROOT, capture_output=True, text=True, check=True)
    with page(665) as shown:
        shown.set_content(written.stdout)
        shown.screenshot(path=FOLDER / "report.png")


def service() -> None:
    """Draw the front page of a service while a real Triton is slow."""
    environment = find_environment()
    if environment is None:
        sys.exit("no environment of a Triton on this machine: `make triton` makes one")
    fault = load_fault("single-instance")
    with tempfile.TemporaryDirectory() as folder, TritonLauncher(environment, fault) as server:
        settings, port = Path(folder) / "diag.toml", free_ports(1)
        settings.write_text(
            f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "1s"\n'
            f'[history]\ndirectory = "{folder}/data"\n[[server]]\nurl = "{server.http_url}"\n'
        )
        load = replace(fault.load, duration=3600.0)
        with serving(settings, port) as running, under_load(server.http_url, load), page(700) as shown:
            time.sleep(_SLOW_SECONDS)
            shown.goto(running.url)
            shown.wait_for_timeout(2000.0)
            shown.screenshot(path=FOLDER / "service.png")


PICTURES: Mapping[str, Callable[[], None]] = {"report": report, "service": service}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
