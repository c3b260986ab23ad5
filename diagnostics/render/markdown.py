"""The explanation for an incident channel or a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.clean import clean
from diagnostics.render.json_report import time_text
from diagnostics.render.text import predicted


def markdown(explanation: Explanation) -> str:
    """Return the report as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    loud = explanation.loud
    answer = loud[0].summary if loud else explanation.reason or "no change would help"
    yield f"**{explanation.verdict.value}**: {_escaped(answer)}"
    window = explanation.window
    if window.end > 0:
        sources = ", ".join(_escaped(source) for source in window.sources)
        yield ""
        yield f"{time_text(window.start)} to {time_text(window.end)}, from {sources}"
    for number, finding in enumerate(explanation.findings, 1):
        yield from _finding(number, finding)
    for title, items in (
        ("Not explained", [f"{s.text}; next: {s.next_measurement}" for s in explanation.symptoms]),
        ("Not visible", [f"{spot.what} {spot.why}; {spot.fix}" for spot in explanation.blind_spots]),
    ):
        if items:
            yield from ("", f"### {title}", "", *(f"- {_escaped(item)}" for item in items))


def _finding(number: int, finding: Finding) -> Iterator[str]:
    yield ""
    yield f"### {number}. {finding.check} ({finding.severity.value})"
    yield ""
    yield f"{_escaped(finding.summary)}. Confidence {finding.confidence:.2f}."
    if finding.evidence:
        yield from ("", "| evidence | value | limit | source |", "|---|---|---|---|")
    for line in finding.evidence:
        unit = line.reading.unit
        cells = (
            line.signal,
            unit.show(line.reading.value),
            f"{line.sign} {unit.show(line.limit)}",
            line.reading.source,
        )
        yield "| " + " | ".join(_escaped(cell) for cell in cells) + " |"
    if finding.suggestion:
        yield from ("", f"{finding.suggestion.remedy.value.capitalize()}: {_escaped(finding.suggestion.text)}.")
        if finding.suggestion.prediction:
            yield f"{_escaped(predicted(finding.suggestion.prediction)).capitalize()}."
    if finding.advice and finding.advice.patch:
        body = [clean(line) for line in finding.advice.patch.text.splitlines()]
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", "\n".join(body))), default=0))
        yield from ("", f"{fence}diff", *body, fence)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", clean(text))
