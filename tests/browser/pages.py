"""Which pages are looked at, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page

from tests.render.situations import HOSTILE

ROOT = Path(__file__).parents[2]
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Recorded ones with pictures of every kind, and made-up ones with what a server could put into a name.
CAPTURES = ("cpu-handed-single-instance", "cpu-handed-cold-start", "gpu-handed-gpu-saturated", "cpu-handed-healthy")
MADE_UP = ("degraded", "nothing", "idle", "no clear cause", "many models", *(f"hostile {kind}" for kind in HOSTILE))

DIFFS = tuple(
    f"diff {name}"
    for name in ("faster", "slower", "nothing before", "many models", "hostile long", "hostile markup", "hostile wide")
)


@dataclass
class Shown:
    """A page, and what it asked for or complained of meanwhile."""

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


Show = Callable[..., Shown]
