"""The explanation for a terminal: 80 columns, what is wrong and what to do in the first lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render import phrases
from diagnostics.render.plain import WIDTH, Style, code_lines, diff_colour, fitted, plain, window_lines, wrapped
from diagnostics.units import Unit

_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
# More entries than this push the answer off the screen; JSON and HTML hold them all.
_ENTRIES_SHOWN = 3
_MARKS = {True: "+", False: "-", None: "?"}


def text(explanation: Explanation, style: Style = plain) -> str:
    """Return the report.

    Args:
        explanation: what to show.
        style: gives a text its colour; plain by default.

    """
    parts = [
        *_answer(explanation, style),
        *_findings(explanation, style),
        *_symptoms(explanation),
        *_anatomies(explanation),
        *_unseen(explanation),
        "",
        *_window(explanation),
    ]
    return "\n".join(parts) + "\n"


def _answer(explanation: Explanation, style: Style) -> Iterator[str]:
    yield from (style(line, "yellow") for line in wrapped(explanation.stale))
    if explanation.actionable:
        first = explanation.actionable[0]
        figure = phrases.against_objective(explanation)
        if figure:
            yield from (style(line, _COLOURS[first.severity]) for line in wrapped(figure))
        yield style(fitted(phrases.title(explanation), WIDTH), _COLOURS[first.severity])
        yield from wrapped(first.summary, "  ")
        yield from wrapped(phrases.rough(explanation), "  ")
    else:
        colour = "green" if explanation.verdict is Verdict.HEALTHY else "yellow"
        head, *rest = wrapped(f"{phrases.title(explanation)}: {phrases.headline(explanation)}", "", hang="  ")
        yield style(head, colour)
        yield from rest
    command = phrases.next_command(explanation)
    yield from wrapped(phrases.next_step(explanation).removesuffix(command), "  ", hang="  ")
    if command:
        yield f"    {command}"
    for change in phrases.changes(explanation):
        yield from wrapped(change, "  ", hang="  ")


def _findings(explanation: Explanation, style: Style) -> Iterator[str]:
    numbers, answered = phrases.numbers(explanation), explanation.actionable[:1]
    beside = phrases.beside(explanation)
    for finding in explanation.findings:
        yield ""
        head = f"{numbers[finding.id]}. {finding.check}, {finding.severity.value}, confidence {finding.confidence:.2f}"
        yield style(fitted(head, WIDTH), _COLOURS[finding.severity])
        yield from wrapped(f"{phrases.where(finding)}; layer {finding.layer.value}", "   ")
        # What the first lines say is not said again.
        if finding not in answered:
            yield from wrapped(finding.summary, "   ")
            yield from wrapped(finding.doubt, "   ")
        yield from wrapped(phrases.impact(finding), "   ")
        if finding.caused_by in numbers:
            yield f"   caused by {numbers[finding.caused_by]}"
        yield from _evidence(finding.evidence)
        yield from _suggestion(finding, style, beside.get(finding.id, ""), reported=finding in answered)


def _evidence(lines: Sequence[LedgerLine]) -> Iterator[str]:
    if lines:
        yield f"   {'evidence (+ for, - against)':<28}{'value':>10}  {'limit':<11}source"
    for line in lines:
        name, value, limit = fitted(line.signal, 26), fitted(phrases.value(line), 10), fitted(phrases.limit(line), 10)
        source = fitted(phrases.source(line), WIDTH - 54)
        yield f"   {_MARKS[line.met]} {name:<26}{value:>10}  {limit:<11}{source}"


def _suggestion(finding: Finding, style: Style, beside: str, *, reported: bool) -> Iterator[str]:
    suggestion, advice = finding.suggestion, finding.advice
    if suggestion is None:
        return
    if not reported:
        yield from wrapped(f"{suggestion.remedy.value}: {suggestion.text}", "   ")
    yield from wrapped(phrases.end_to_end(finding), "   ")
    if suggestion.prediction:
        yield from wrapped(phrases.predicted(suggestion.prediction), "   ")
    if advice and advice.steps:
        yield from wrapped(advice.steps.touches, "   ")
    if advice and advice.note:
        yield from wrapped(f"note: {advice.note}", "   ")
    if advice and advice.steps and advice.patch:
        yield from wrapped(f"apply: {advice.steps.apply}", "   ", hang="  ")
        yield from wrapped(f"undo: {advice.steps.undo}", "   ", hang="  ")
    if beside:
        yield from wrapped(beside, "   ")
    if advice and advice.patch:
        yield ""
        yield from (style(line, diff_colour(line)) for line in code_lines(advice.patch.text))


def _symptoms(explanation: Explanation) -> Iterator[str]:
    """Yield what is not explained; where nothing is, the first of it is the answer and was said."""
    reported = phrases.headline(explanation)
    figure = phrases.against_objective(explanation)
    stated = (one for one in explanation.symptoms if not figure or not figure.startswith(one.figure or " "))
    left = [symptom for symptom in stated if symptom.text != reported]
    if not left:
        return
    yield ""
    yield "also seen:" if explanation.actionable else "also seen, and not explained:"
    for symptom in left:
        yield from wrapped(f"{symptom.text}; next: {symptom.next_measurement}", "  ", "- ")


def _anatomies(explanation: Explanation) -> Iterator[str]:
    anatomy = explanation.anatomy
    for item in anatomy[:_ENTRIES_SHOWN]:
        where = f" on {item.server}" if len({each.server for each in anatomy}) > 1 else ""
        yield ""
        yield from wrapped(
            f"{phrases.where_spent(explanation, item)}{where} ({phrases.basis(item)}):",
            "",
        )
        yield f"  {'stage':<24}{'queue':>9}{'compute':>9}{'in+out':>9}{'engine':>9}{'all':>9}{'share':>8}"
        yield from (_stage(stage, item) for stage in item.stages)
        if item.unattributed_seconds > 0:
            yield f"  {phrases.rest(item):<24}{'':>36}{_totals(item.unattributed_seconds, item)}"
        for sentence in (phrases.derivation(item), *phrases.beside_path(item)):
            yield from wrapped(sentence, "  ")
    if len(anatomy) > _ENTRIES_SHOWN:
        yield f"  and {len(anatomy) - _ENTRIES_SHOWN} more"


def _stage(stage: Stage, item: Anatomy) -> str:
    cells = stage.cells
    shown = (
        cells.get(Phase.QUEUE, 0.0),
        cells.get(Phase.COMPUTE, 0.0),
        cells.get(Phase.INPUT, 0.0) + cells.get(Phase.OUTPUT, 0.0),
        cells.get(Phase.ENGINE, 0.0),
    )
    return (
        f"  {fitted(stage.model, 23):<24}{''.join(f'{_cell(one):>9}' for one in shown)}{_totals(stage.seconds, item)}"
    )


def _totals(seconds: float, item: Anatomy) -> str:
    return f"{_cell(seconds):>9}{phrases.share(seconds, item):>8}"


def _cell(seconds: float) -> str:
    return "—" if seconds == 0 else Unit.SECONDS.show(seconds)


def _unseen(explanation: Explanation) -> Iterator[str]:
    if explanation.blind_spots:
        yield ""
        yield "blind spots:"
    for what, why, fix in phrases.unseen(explanation):
        yield from wrapped(f"{', '.join(what)}: {why}{f'; {fix}' if fix else ''}", "  ", "- ")
    undecided = phrases.undecided(explanation)
    if undecided:
        yield ""
        yield "could not be decided:"
    for reason, checks in undecided.items():
        yield from wrapped(f"{', '.join(checks)}: {reason}", "  ", "- ")


def _window(explanation: Explanation) -> Iterator[str]:
    window = explanation.window
    if window.end <= 0:
        yield from wrapped(f"nothing was read from {', '.join(window.sources) or 'any source'}")
    else:
        yield from window_lines(window)
