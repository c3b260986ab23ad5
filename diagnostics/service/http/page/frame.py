"""Style sheets and scripts, named by their content, so that browsers may keep them for good."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from diagnostics import __version__
from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis.change_options import as_given
from diagnostics.render.html_page import asset, environment
from diagnostics.render.plain import clean
from diagnostics.render.slo import document
from diagnostics.service.standing import is_down, reason, roots, since
from diagnostics.units import Unit, span, utc

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
# Own files, those of the report, and those of others in `static/vendor`, as its NOTICE lists.
_OWN = ("service.css", "service.js", "keys.js", "timelines.js", "theme.js", "icon.svg")
_REPORT = ("page.css", "copy.js")
_VENDOR = ("uplot-1.6.32.min.js", "uplot-1.6.32.min.css")
NAMES = frozenset((*_OWN, *_REPORT, *_VENDOR))


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
    folder = "static/vendor" if name in _VENDOR else "static"
    return Asset(name, resources.files(__package__).joinpath(folder, name).read_bytes())


def address(name: str) -> str:
    """Return the path of a file with its version."""
    return f"/static/{name}?v={read(name).version}"


# Everything comes from here: no other server, no script or style in the page's text, no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Frame:
    """Renders pages, and their contents alone."""

    def __init__(self, clock: Callable[[], float], base: str = "") -> None:
        """`clock` returns Unix seconds; `base` is what the paths of all links begin with."""
        self._clock, self._base, self._templates = clock, base, _templates(base)

    def content(self, template: str, **values: object) -> str:
        """Return the content of a page, which is a fragment of its own."""
        return self._templates.get_template(template).render(now=self._clock(), **values)

    def page(self, title: str, content: str, *, fragment: str = "", query: str = "", status: int = 200) -> HTMLResponse:
        """Return a whole page.

        Args:
            title: of the window.
            content: rendered before.
            fragment: where the content is asked for again, without the base; empty for what never changes.
            query: what the search box holds.
            status: the answer's.

        """
        frame = self._templates.get_template("frame.html")
        again = f"{self._base}{fragment}" if fragment else ""
        text = frame.render(
            title=title, content=content, fragment=again, query=query, now=self._clock(), version=__version__
        )
        return html_answer(text, status)


def html_answer(text: str, status: int = 200) -> HTMLResponse:
    """Return an answer; what no encoding holds is replaced."""
    return HTMLResponse(text.encode("utf-8", "replace"), status, HEADERS)


def _templates(base: str) -> Environment:
    made = environment()
    reports = made.loader
    assert reports is not None
    made.finalize = _printable
    made.loader = ChoiceLoader([PackageLoader(__package__, "templates"), reports])
    made.filters |= {
        "path": lambda text: quote(text.encode("utf-8", "replace"), safe=""),
        "rate": Unit.PER_SECOND.show,
        "moment": _moment,
        "machine": _machine,
        "plural": _plural,
        "span": span,
    }
    made.globals |= {
        "asset": lambda name: f"{base}{address(name)}",
        "base": base,
        "catalogue": catalogue(),
        "as_given": as_given,
        "is_down": is_down,
        "reason": reason,
        "roots": roots,
        "since": since,
        "slo": document,
    }
    return made


def _printable(value: object) -> object:
    """Make all that is printed safe to look at: what is no text yet may hold a server's names too."""
    return value if isinstance(value, Markup) else clean(str(value))


def _moment(at: float) -> str:
    """Return Unix seconds as a person reads them: `Nov 28 03:12:40Z`."""
    return f"{utc(at):%b %d %H:%M:%S}Z"


def _machine(at: float) -> str:
    return f"{utc(at):%Y-%m-%dT%H:%M:%SZ}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
