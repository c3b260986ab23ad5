"""A check's runbook as parts of a page: headings, paragraphs, lists; code spans kept apart from text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import tail
from diagnostics.anatomy.cells import Anatomy
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Fires, Quiet
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.undecided import unseen_time
from diagnostics.evidence.evidence import Evidence
from diagnostics.render import phrases
from diagnostics.render.explanation.charts import Course, course
from diagnostics.render.explanation.graph import NARROW, WIDE, Picture, facts_of, marks, picture
from diagnostics.render.html_page import Waterfall, page, waterfall
from diagnostics.signals.signal import Subject
from diagnostics.window.graph import Ensemble

_ITEM = re.compile(r"(?:-|\d{1,9}\.) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph, or a list of several lines. Every line alternates text and code, text first."""

    kind: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookSection:
    """A section of a runbook."""

    heading: str
    blocks: tuple[Paragraph, ...]


def parts(sections: Mapping[str, str]) -> tuple[RunbookSection, ...]:
    """Return the sections of a runbook in order; `sections` are texts by heading, as of `RegisteredCheck.sections`."""
    return tuple(RunbookSection(heading=heading, blocks=_blocks(text)) for heading, text in sections.items())


def _blocks(text: str) -> tuple[Paragraph, ...]:
    return tuple(block for chunk in re.split(r"\n(?:[^\S\n]*\n)+", text) for block in _split(chunk.splitlines()))


def _split(lines: Sequence[str]) -> list[Paragraph]:
    """Return the blocks of a chunk: a paragraph, a list, or a list right under its sentence."""
    items: list[str] = []
    before: list[str] = []
    for line in map(str.strip, lines):
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        elif items:
            items[-1] = f"{items[-1]} {line}"
        else:
            before.append(line)
    kind = "ol" if re.search(r"^\s*\d+\. ", "\n".join(lines), re.MULTILINE) else "ul"
    blocks = [Paragraph(kind="p", lines=(_spans(" ".join(before)),))] if before else []
    return [*blocks, Paragraph(kind=kind, lines=tuple(map(_spans, items)))] if items else blocks


def _spans(text: str) -> tuple[str, ...]:
    return tuple(text.split("`"))


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
class FindingView:
    """A finding with what is shown beside it: its number, its cause's, its runbook, the entry's mean without it.

    `beside` says how its patch relates to an earlier one; empty where it is the only one.
    """

    finding: Finding
    number: int
    cause: int | None
    runbook: tuple[RunbookSection, ...]
    mean_after: float | None
    beside: str


def html(explanation: Explanation) -> str:
    """Return the report as a page; names from servers cannot break out of it."""
    return page(
        "page.html",
        x=explanation,
        reported=tuple(reported(explanation)),
        drawn=tuple(drawn(explanation, ENTRIES_DRAWN)),
        others=explanation.anatomy[ENTRIES_DRAWN:],
        course=leading_course(explanation),
        considered=considered(explanation),
        ran=len(catalogue()),
    )


def reported(explanation: Explanation) -> Iterator[FindingView]:
    """Yield the findings in order."""
    numbers, beside = phrases.numbers(explanation), phrases.beside(explanation)
    for finding in explanation.findings:
        yield FindingView(
            finding=finding,
            number=numbers[finding.id],
            cause=numbers.get(finding.caused_by or ""),
            runbook=parts(catalogue()[finding.check].sections()),
            mean_after=phrases.mean_after(finding),
            beside=beside.get(finding.id, ""),
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
    whole = unseen_time(explanation.evidence, item) is None
    title = "A request on average" if whole else "The row of a request on average, which may end before the request"
    mean = waterfall(title, item, ensemble, longest)
    if slow is None:
        return (mean,)
    return mean, waterfall("The slowest tenth of the traced requests", slow, ensemble, longest)


def _ensemble(evidence: Evidence, item: Anatomy) -> Ensemble | None:
    return evidence.graph(item.server).ensembles.get(item.ensemble or "")


def leading_course(explanation: Explanation) -> Course | None:
    """Return the charts of the first finding's model, else of the stage where most time goes."""
    for finding in explanation.actionable[:1]:
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
    for finding in explanation.actionable[:1]:
        same = [result for result in explanation.results if _beside(result.subject) == _beside(finding.subject)]
        # What it says of one version is no answer to what it found of another.
        fired = {result.check.id for result in same if isinstance(result.outcome, Fires)}
        for result in same:
            if isinstance(result.outcome, Quiet) and result.check.id not in fired:
                found.setdefault(result.check.id, result.outcome.because)
    return found


def _beside(on: Subject) -> tuple[str, str | None]:
    return on.server, on.model
