"""Style sheets and scripts, plotly's among them: named by their content, so that browsers may keep them for good."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources

from diagnostics.render.html_page import asset

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
# Own files, and where those lie that others ship.
_OWN = ("service.css", "service.js", "keys.js", "timelines.js", "theme.js", "icon.svg")
_REPORT = ("page.css", "copy.js")
_PLOTLY = "plotly.min.js"
NAMES = frozenset((*_OWN, *_REPORT, _PLOTLY))


@dataclass(frozen=True)
class Asset:
    """A file and what is sent of it."""

    name: str
    body: bytes = field(repr=False)

    @property
    def type(self) -> str:
        """Its content type."""
        return TYPES[self.name.rpartition(".")[2]]

    @cached_property
    def version(self) -> str:
        """A text that changes with the content."""
        return hashlib.sha256(self.body).hexdigest()[:16]

    @cached_property
    def packed(self) -> bytes:
        """The body through gzip."""
        return gzip.compress(self.body, compresslevel=6, mtime=0)


@cache
def read(name: str) -> Asset:
    """Return one of `NAMES`."""
    if name in _REPORT:
        return Asset(name, asset(name).encode())
    if name == _PLOTLY:
        return Asset(name, resources.files("plotly").joinpath("package_data", name).read_bytes())
    return Asset(name, resources.files(__package__).joinpath("static", name).read_bytes())


def address(name: str) -> str:
    """Return the path of a file with its version."""
    return f"/static/{name}?v={read(name).version}"
