"""The explanation as one HTML file that needs nothing else: no network, no fonts, and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from math import isfinite

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from diagnostics import __version__
from diagnostics.anatomy.anatomy import tail
from diagnostics.anatomy.cells import Anatomy
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Quiet
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import Line
from diagnostics.render import words
from diagnostics.render.clean import clean, code_lines
from diagnostics.render.html_charts import Course, course
from diagnostics.render.html_graph import NARROW, WIDE, Picture, picture
from diagnostics.render.html_nodes import facts_of, marks
from diagnostics.render.html_runbook import Part, parts
from diagnostics.render.html_waterfall import Waterfall, waterfall
from diagnostics.render.json_report import time_text
from diagnostics.signals.subject import Subject
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble

# Each entry has a graph and a waterfall; the others are a line in a table.
ENTRIES_DRAWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An entry with its pictures; no graph for a model that is called directly."""

    item: Anatomy
    name: str
    pictures: tuple[Picture, ...]
    waterfalls: tuple[Waterfall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A finding with what is shown beside it: its number, its cause's, its runbook, the entry's mean without it."""

    finding: Finding
    number: int
    cause: int | None
    runbook: tuple[Part, ...]
    mean_after: float | None


def html(explanation: Explanation) -> str:
    """Return the report as a page; names from servers cannot break out of it."""
    style, script = asset("page.css"), asset("page.js")
    # What is between the tags and what the policy names must be the same to the byte.
    template = environment().get_template("page.html")
    return template.render(
        x=explanation,
        version=__version__,
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
        told=tuple(told(explanation)),
        drawn=tuple(drawn(explanation, ENTRIES_DRAWN)),
        others=explanation.anatomy[ENTRIES_DRAWN:],
        course=leading_course(explanation),
        considered=considered(explanation),
        ran=len(catalogue()),
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


def _interval(line: Line) -> str:
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


def told(explanation: Explanation) -> Iterator[Told]:
    """Yield the findings in order."""
    numbers = words.numbers(explanation)
    for finding in explanation.findings:
        yield Told(
            finding=finding,
            number=numbers[finding.id],
            cause=numbers.get(finding.caused_by or ""),
            runbook=parts(catalogue()[finding.check]),
            mean_after=words.mean_after(finding),
        )


def drawn(explanation: Explanation, most: int) -> Iterator[Drawn]:
    """Yield the first `most` entries, the busiest first."""
    marked = marks(explanation)
    for item in explanation.anatomy[:most]:
        ensemble = _ensemble(explanation.evidence, item)
        pictures: tuple[Picture, ...] = ()
        if ensemble is not None:
            facts = facts_of(explanation.evidence, item, ensemble, marked)
            pictures = tuple(picture(ensemble, facts, layout) for layout in (WIDE, NARROW))
        name = item.ensemble or item.stages[0].model
        yield Drawn(item=item, name=name, pictures=pictures, waterfalls=_waterfalls(explanation, item, ensemble))


def _waterfalls(explanation: Explanation, item: Anatomy, ensemble: Ensemble | None) -> tuple[Waterfall, ...]:
    """Return the mean request, and the slowest where traces show them."""
    slow = tail(explanation.evidence, item)
    longest = max(item.mean_seconds, slow.mean_seconds) if slow else 0.0
    mean = waterfall("A request on average", item, ensemble, longest)
    if slow is None:
        return (mean,)
    return mean, waterfall("The slowest tenth of the traced requests", slow, ensemble, longest)


def _ensemble(evidence: Evidence, item: Anatomy) -> Ensemble | None:
    return evidence.graph(item.server).ensembles.get(item.ensemble or "")


def leading_course(explanation: Explanation) -> Course | None:
    """Return the charts of the first finding's model, else of the stage where most time goes."""
    for finding in explanation.loud[:1]:
        on = finding.subject
        if on.model is not None:
            model = Subject(server=on.server, model=on.model)
            entry = Subject(server=on.server, ensemble=on.ensemble) if on.ensemble else model
            onset = finding.onset.at if finding.onset else None
            return course(explanation.evidence, entry, model, onset)
    for item in explanation.anatomy[:1]:
        slowest = max(item.stages, key=lambda stage: stage.seconds)
        model = Subject(server=item.server, model=slowest.model)
        entry = Subject(server=item.server, ensemble=item.ensemble) if item.ensemble else model
        return course(explanation.evidence, entry, model)
    return None


def considered(explanation: Explanation) -> Mapping[str, str]:
    """Return the checks that looked at the first finding's subject and said no, with their reason."""
    found: dict[str, str] = {}
    for finding in explanation.loud[:1]:
        for result in explanation.results:
            same = (result.subject.server, result.subject.model) == (finding.subject.server, finding.subject.model)
            if same and isinstance(result.outcome, Quiet):
                found.setdefault(result.check.id, result.outcome.because)
    return found
