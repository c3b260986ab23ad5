"""A template filled in as one HTML file that needs nothing else, under a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from math import isfinite

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from diagnostics import __version__
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render import words
from diagnostics.render.clean import clean, code_lines
from diagnostics.units import Unit, time_text


def page(template: str, **shown: object) -> str:
    """Return a template of the folder `page` with what it shows; names from servers cannot break out of it."""
    style, script = asset("page.css"), asset("copy.js") + asset("page.js")
    # What is between the tags and what the policy names must be the same to the byte.
    return (
        environment()
        .get_template(template)
        .render(
            version=__version__,
            style=style,
            script=script,
            policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
            **shown,
        )
    )


def environment() -> Environment:
    """Return what renders pages: everything printed is cleaned and escaped, filters and `words` are there."""
    made = Environment(
        loader=PackageLoader("diagnostics.render", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "seconds": Unit.SECONDS.show,
        "ratio": Unit.RATIO.show,
        "count": Unit.COUNT.show,
        "time": time_text,
        "pixels": lambda value: f"{value:.1f}",
        "lines": code_lines,
        "change": _change,
        "interval": _interval,
        "signs": lambda text: text.replace(">=", "≥").replace("<=", "≤"),
    }
    made.globals["words"] = words
    return made


def _printable(value: object) -> object:
    """Make whatever a template prints safe to look at; what it may not contain is escaped after this."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _change(line: str) -> str:
    """Return what a diff's line does, as a class."""
    if line.startswith(("+++", "---", "@@", "#")):
        return "about"
    return {"+": "added", "-": "removed"}.get(line[:1], "")


def _interval(line: LedgerLine) -> str:
    """Return the interval of a reading that is not exact."""
    low, high, unit = line.reading.low, line.reading.high, line.reading.unit
    if low is None or high is None or low == high:
        return "—"
    return f"{_end(unit, low)} to {_end(unit, high)}"


def _end(unit: Unit, value: float) -> str:
    return unit.show(value) if isfinite(value) else "no limit"


def asset(name: str) -> str:
    """Return the text of a file that pages are made with."""
    return resources.files(__package__).joinpath(f"page/{name}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a content security policy names a text that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
