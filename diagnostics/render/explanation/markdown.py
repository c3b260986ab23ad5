"""The explanation for an incident channel or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render import phrases
from diagnostics.render.markdown import fenced
from diagnostics.render.plain import escaped, table
from diagnostics.units import Unit, time_text

_PHASES = (Phase.QUEUE, Phase.INPUT, Phase.COMPUTE, Phase.OUTPUT, Phase.ENGINE)


def markdown(explanation: Explanation) -> str:
    """Return the report as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    if explanation.stale:
        yield from (escaped(explanation.stale), "")
    _, _, cause = phrases.title(explanation).partition(": ")
    stated = ": ".join(part for part in (cause, phrases.headline(explanation)) if part)
    yield f"**{explanation.verdict.value}**: {escaped(stated)}"
    rough, step = phrases.rough(explanation), phrases.next_step(explanation)
    if rough:
        yield from ("", escaped(rough))
    if step:
        kind, _, what = step.partition(": ")
        command = phrases.next_command(explanation)
        yield from ("", f"**{kind}**: {escaped(what.removesuffix(command).rstrip())}")
        yield from ("", *fenced(command, "sh")) if command else ()
    for change in phrases.changes(explanation):
        yield from ("", escaped(change))
    window = explanation.window
    if window.end > 0:
        sources, seconds = ", ".join(window.sources), Unit.SECONDS.show(window.end - window.start)
        span = f"{time_text(window.start)} to {time_text(window.end)} ({seconds})"
        yield from ("", f"{span}, from {escaped(sources)}")
    numbers, beside = phrases.numbers(explanation), phrases.beside(explanation)
    for finding in explanation.findings:
        yield from _finding(
            finding, numbers, beside.get(finding.id, ""), reported=finding in explanation.actionable[:1]
        )
    for item in explanation.anatomy[:1]:
        yield from _anatomy(explanation, item)
    yield from _lists(explanation)


def _finding(finding: Finding, numbers: dict[str, int], beside: str, *, reported: bool) -> Iterator[str]:
    yield from ("", f"### {numbers[finding.id]}. {finding.check} ({finding.severity.value})", "")
    facts = [f"{phrases.where(finding)}; layer {finding.layer.value}", phrases.impact(finding)]
    facts += [f"confidence {finding.confidence:.2f}"]
    facts += [f"caused by {numbers[finding.caused_by]}"] if finding.caused_by in numbers else []
    if not reported:
        yield from (f"{escaped(f'{finding.summary}. {finding.doubt}'.rstrip())}", "")
    yield escaped("; ".join(fact for fact in facts if fact)) + "."
    yield from _evidence(finding)
    yield from _suggestion(finding, beside, reported=reported)


def _evidence(finding: Finding) -> Iterator[str]:
    if finding.evidence:
        rows = [
            (line.signal, phrases.speaks(line), phrases.value(line), phrases.limit(line), phrases.source(line))
            for line in finding.evidence
        ]
        yield from table(("evidence", "speaks", "value", "limit", "source"), rows)


def _suggestion(finding: Finding, beside: str, *, reported: bool) -> Iterator[str]:
    suggestion, advice = finding.suggestion, finding.advice
    if suggestion is None:
        return
    if not reported:
        yield from ("", f"**{suggestion.remedy.value}**: {escaped(suggestion.text)}")
    how = advice.steps if advice else None
    forecast = phrases.predicted(suggestion.prediction) if suggestion.prediction else ""
    reported_more = [
        phrases.end_to_end(finding),
        forecast,
        how.touches if how else "",
        advice.note if advice else "",
        beside,
    ]
    reported_more += [f"apply: {how.apply}", f"undo: {how.undo}"] if how and how.apply else []
    items = [f"- {escaped(item)}" for item in reported_more if item]
    yield from ("", *items) if items else ()
    if advice and advice.patch:
        yield from ("", *fenced(advice.patch.text, "diff" if advice.patch.base == "file" else "protobuf"))


def _anatomy(explanation: Explanation, item: Anatomy) -> Iterator[str]:
    title = phrases.where_spent(explanation, item)
    yield from ("", f"### {escaped(title[0].upper() + title[1:])}")
    rows = [
        (stage.model, *(_cell(stage.cells.get(phase, 0.0)) for phase in _PHASES), phrases.share(stage.seconds, item))
        for stage in item.stages
    ]
    if item.unattributed_seconds > 0:
        spent = f"{_cell(item.unattributed_seconds)}, {phrases.share(item.unattributed_seconds, item)}"
        rows.append((phrases.rest(item), *("" for _ in _PHASES), spent))
    yield from table(("stage", *(phase.value for phase in _PHASES), "share"), rows)
    yield from ("", f"This is the {escaped(phrases.basis(item))}.")
    for sentence in (phrases.derivation(item), *phrases.beside_path(item)):
        yield from ("", f"{escaped(sentence)}.") if sentence else ()


def _cell(seconds: float) -> str:
    return "—" if seconds == 0 else Unit.SECONDS.show(seconds)


def _lists(explanation: Explanation) -> Iterator[str]:
    undecided = phrases.undecided(explanation).items()
    for title, items in (
        (_unexplained(explanation), [f"{sign.text}; next: {sign.next_measurement}" for sign in explanation.symptoms]),
        ("Blind spots", [f"{', '.join(what)}: {why}; {fix}" for what, why, fix in phrases.unseen(explanation)]),
        ("Could not be decided", [f"{', '.join(checks)}: {reason}" for reason, checks in undecided]),
    ):
        if items:
            yield from ("", f"### {title}", "", *(f"- {escaped(item.rstrip('; '))}" for item in items))


def _unexplained(explanation: Explanation) -> str:
    return "Also seen" if explanation.actionable else "Not explained"
