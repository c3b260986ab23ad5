"""The explanation for a terminal: 80 columns, the answer in the first line."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.check import Prediction, Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.ledger import Line
from diagnostics.render.clean import clean
from diagnostics.render.json_report import time_text
from diagnostics.tuning.changes import BlastRadius
from diagnostics.units import Unit

WIDTH = 80
Style = Callable[[str, str], str]
_RADIUS = {
    BlastRadius.IN_PLACE: "applied in place, without a reload",
    BlastRadius.RELOAD: "reloads the model: both copies in memory meanwhile",
    BlastRadius.ENGINE_REBUILD: "needs a new engine",
}
_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def plain(text: str, colour: str) -> str:  # noqa: ARG001
    """Return the text without colour."""
    return text


def text(explanation: Explanation, style: Style = plain) -> str:
    """Return the report.

    Args:
        explanation: what to show.
        style: gives a text a colour by name (`red`, `yellow`, `green`, `cyan`, `bold`); plain by default.

    """
    parts = [
        *_answer(explanation, style),
        *_findings(explanation, style),
        *_symptoms(explanation),
        *_anatomies(explanation.anatomy),
        *_unseen(explanation),
        "",
        *_window(explanation),
    ]
    return "\n".join(parts) + "\n"


def _answer(explanation: Explanation, style: Style) -> Iterator[str]:
    verdict = explanation.verdict.value
    if explanation.loud:
        first = explanation.loud[0]
        yield style(_first_line(f"{verdict}: {first.check} of {_name(first)}"), _COLOURS[first.severity])
        yield from _wrapped(first.summary, "  ")
        return
    colour = "green" if explanation.verdict is Verdict.HEALTHY else "yellow"
    reason = explanation.reason or _healthy_reason(explanation)
    head, *rest = textwrap.wrap(clean(f"{verdict}: {reason}"), WIDTH, subsequent_indent="  ") or [verdict]
    yield style(head, colour)
    yield from rest


def _first_line(line: str) -> str:
    return textwrap.shorten(clean(line), WIDTH, placeholder="…")


def _healthy_reason(explanation: Explanation) -> str:
    if not explanation.anatomy:
        return "nothing to judge"
    busiest = explanation.anatomy[0]
    name = busiest.ensemble or busiest.stages[0].model
    return f"requests of {name} take {Unit.SECONDS.show(busiest.mean_seconds)} on average, and no change would help"


def _name(finding: Finding) -> str:
    subject = finding.subject
    return subject.model or subject.ensemble or subject.gpu or subject.server


def _findings(explanation: Explanation, style: Style) -> Iterator[str]:
    ids = {finding.id: number for number, finding in enumerate(explanation.findings, 1)}
    for number, finding in enumerate(explanation.findings, 1):
        yield ""
        head = f"{number}. {finding.check}  {finding.severity.value}"
        yield style(_first_line(head), _COLOURS[finding.severity])
        yield from _wrapped(_where(finding), "   ")
        if number > 1 or not finding.severity.loud:
            yield from _wrapped(finding.summary, "   ")
        yield from _wrapped(_impact(finding), "   ")
        if finding.caused_by:
            yield f"   caused by {ids[finding.caused_by]}"
        yield from _evidence(finding.evidence)
        yield from _suggestion(finding, style)


def _where(finding: Finding) -> str:
    subject = finding.subject
    parts = [f"model {subject.model}" if subject.model else "", f"version {subject.version}" if subject.version else ""]
    parts += [f"in {subject.ensemble}" if subject.ensemble else "", f"on {subject.server}"]
    return " ".join(part for part in parts if part) + f" · layer {finding.layer.value}"


def _impact(finding: Finding) -> str:
    impact, parts = finding.impact, []
    if impact.seconds_per_request > 0:
        share = Unit.RATIO.show(impact.share_of_latency)
        parts.append(f"takes {Unit.SECONDS.show(impact.seconds_per_request)} of each request ({share})")
    if impact.share_of_requests_failed > 0:
        parts.append(f"fails {Unit.RATIO.show(impact.share_of_requests_failed)} of requests")
    return ", ".join([*parts, f"confidence {finding.confidence:.2f}"])


def _evidence(lines: Sequence[Line]) -> Iterator[str]:
    if lines:
        yield f"   {'evidence':<27}{'value':>10}  {'limit':<11}source"
    for line in lines:
        unit = line.reading.unit
        limit = f"{line.sign} {unit.show(line.limit)}"
        value = unit.show(line.reading.value) if line.reading.missing is None else "unknown"
        source = line.reading.source or "—"
        if line.reading.missing is not None:
            source = line.reading.missing.value.replace("_", " ")
        elif line.reading.estimated:
            source += ", estimated"
        yield clean(f"   {line.signal:<27}{value:>10}  {limit:<11}{_short(source)}")


def _short(source: str) -> str:
    return textwrap.shorten(source.replace(" and ", "+"), WIDTH - 51, placeholder="…")


def _suggestion(finding: Finding, style: Style) -> Iterator[str]:
    suggestion, advice = finding.suggestion, finding.advice
    if suggestion is None:
        return
    yield from _wrapped(f"{suggestion.remedy.value}: {suggestion.text}", "   ")
    if advice and advice.blast_radius:
        yield f"   {_RADIUS[advice.blast_radius]}"
    if suggestion.prediction:
        yield from _wrapped(predicted(suggestion.prediction), "   ")
        yield from _wrapped(_end_to_end(finding), "   ")
    if advice and advice.note:
        yield from _wrapped(f"note: {advice.note}", "   ")
    if advice and advice.patch:
        yield ""
        for line in advice.patch.text.splitlines():
            yield style(clean(line), _diff_colour(line))


def _diff_colour(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return "green"
    return "red" if line.startswith("-") and not line.startswith("---") else ""


def predicted(prediction: Prediction) -> str:
    """Return a prediction as one sentence with its interval, or with what would make it unlimited."""
    show = Unit.SECONDS.show
    high = "not keeping up" if prediction.high_seconds is None else show(prediction.high_seconds)
    interval = f"{show(prediction.low_seconds)} to {high}"
    assumes = f"; assumes that {'; '.join(prediction.assumptions)}" if prediction.assumptions else ""
    return (
        f"predicted {prediction.phase.value}: {show(prediction.now_seconds)} → "
        f"{show(prediction.predicted_seconds)} ({interval}, estimated{assumes})"
    )


def _end_to_end(finding: Finding) -> str:
    now, saved = finding.impact.mean_seconds, finding.impact.seconds_per_request
    name = finding.subject.ensemble or finding.subject.model
    return f"predicted mean of {name}: {Unit.SECONDS.show(now)} → {Unit.SECONDS.show(max(now - saved, 0.0))}"


def _symptoms(explanation: Explanation) -> Iterator[str]:
    if not explanation.symptoms:
        return
    yield ""
    yield "not explained:"
    for symptom in explanation.symptoms:
        yield from _wrapped(f"{symptom.text}; next: {symptom.next_measurement}", "  ", "- ")


def _anatomies(anatomy: Sequence[Anatomy]) -> Iterator[str]:
    for item in anatomy[:3]:
        name = item.ensemble or f"{item.stages[0].model} (called directly)"
        yield ""
        yield from _wrapped(
            f"where {name} spends its {Unit.SECONDS.show(item.mean_seconds)} (mean of {item.requests:.0f} requests, "
            f"from {item.source}):",
            "",
        )
        yield f"  {'stage':<24}{'queue':>9}{'input':>9}{'compute':>9}{'output':>9}{'engine':>9}{'share':>8}"
        for stage in item.stages:
            cells = "".join(f"{_cell(stage.cells.get(phase, 0.0)):>9}" for phase in _PHASES)
            share = Unit.RATIO.show(stage.seconds / item.mean_seconds) if item.mean_seconds else "—"
            yield f"  {textwrap.shorten(clean(stage.model), 23, placeholder='…'):<24}{cells}{share:>8}"
        if item.unattributed_seconds > 0:
            yield f"  {'between stages':<24}{'':>45}{_cell(item.unattributed_seconds):>8}"
    if len(anatomy) > 3:
        yield f"  and {len(anatomy) - 3} more"


_PHASES = (Phase.QUEUE, Phase.INPUT, Phase.COMPUTE, Phase.OUTPUT, Phase.ENGINE)


def _cell(seconds: float) -> str:
    return "—" if seconds == 0 else Unit.SECONDS.show(seconds)


def _unseen(explanation: Explanation) -> Iterator[str]:
    if explanation.blind_spots:
        yield ""
        yield "not visible:"
    for spot in explanation.blind_spots:
        fix = f"; {spot.fix}" if spot.fix else ""
        yield from _wrapped(f"{spot.what.rstrip('.')}: {spot.why}{fix}", "  ", "- ")
    undecided: dict[str, set[str]] = {}
    for result, unknown in explanation.unknown:
        reason = f"{unknown.signal} {unknown.reason.value.replace('_', ' ')}"
        undecided.setdefault(result.check.id, set()).add(reason)
    if undecided:
        yield ""
        yield "could not be decided:"
    for check, reasons in undecided.items():
        yield from _wrapped(f"{check}: {', '.join(sorted(reasons))}", "  ", "- ")


def _window(explanation: Explanation) -> Iterator[str]:
    window = explanation.window
    if window.end <= 0:
        yield from _wrapped(f"nothing was read from {', '.join(window.sources) or 'any source'}", "")
        return
    sources = ", ".join(window.sources)
    seconds = Unit.SECONDS.show(window.end - window.start)
    yield from _wrapped(f"{time_text(window.start)} to {time_text(window.end)}, {seconds}, from {sources}", "")


def _wrapped(line: str, indent: str, mark: str = "") -> list[str]:
    return textwrap.wrap(
        clean(line),
        WIDTH,
        initial_indent=indent + mark,
        subsequent_indent=indent + " " * len(mark),
        break_on_hyphens=False,
    )
