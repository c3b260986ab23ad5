"""The explanation for a terminal: 80 columns, what is wrong and what to do in the first lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict, WindowFacts
from diagnostics.diagnosis.finding import Finding, Unpredicted
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render import phrases
from diagnostics.render.plain import WIDTH, Style, code_lines, diff_colour, fitted, plain, window_lines, wrapped
from diagnostics.units import Unit

_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
# More entries than this push the answer off the screen; JSON and HTML hold them all.
_ENTRIES_SHOWN = 3
_MARKS = {True: "+", False: "-", None: "?"}


def text(explanation: Explanation, style: Style = plain, *, verbose: bool = False) -> str:
    """Return the report: what users feel and why, the patch, the evidence, then the rest.

    Args:
        explanation: what to show.
        style: gives a text its colour; plain by default.
        verbose: show all of it: evidence and patches of all findings, every entry, assumptions and blind spots. Else
            what somebody needs who was just paged, in about 40 lines.

    """
    rest = _whole(explanation, style) if verbose else _short(explanation)
    return "\n".join([*_answer(explanation, style), *rest, "", *_window(explanation)]) + "\n"


def _answer(explanation: Explanation, style: Style) -> Iterator[str]:
    """Yield what is wrong and what to do about it, the patch with its effect included."""
    yield from (style(line, "yellow") for line in wrapped(explanation.stale))
    if explanation.actionable:
        first = explanation.actionable[0]
        lines = wrapped(phrases.first_line(explanation), hang="  ")
        yield from (style(line, _COLOURS[first.severity]) for line in lines)
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
    for first in explanation.actionable[:1]:
        yield from _patch(first, explanation.window, style)


def _patch(finding: Finding, window: WindowFacts, style: Style) -> Iterator[str]:
    """Yield a patch, its predicted effect, what it touches and how it is applied."""
    advice = finding.advice
    if advice and advice.patch:
        yield ""
        yield from (style(line, diff_colour(line)) for line in code_lines(advice.patch.text))
        yield ""
    if _is_predicted(finding):
        yield from wrapped(phrases.end_to_end(finding), "  ", hang="  ")
    if advice and advice.steps:
        yield from wrapped(advice.steps.touches, "  ", hang="  ")
    if advice and advice.note:
        yield from wrapped(f"note: {advice.note}", "  ", hang="  ")
    if advice and advice.steps and advice.patch:
        yield from wrapped(f"apply: {advice.steps.how}", "  ", hang="  ")
        yield from (f"    {command}" for command in phrases.commands(finding, window))


def _is_predicted(finding: Finding) -> bool:
    """Return whether an effect is stated; why it is not is for those who ask for all."""
    return not isinstance(finding.effect, Unpredicted)


def _short(explanation: Explanation) -> Iterator[str]:
    first = explanation.actionable[:1]
    for finding in explanation.findings:
        if finding.check == phrases.BLIND_SPOTS:
            continue
        yield from _head(explanation, finding)
        if finding in first:
            yield from _evidence(finding.evidence)
        elif finding.suggestion:
            yield from wrapped(phrases.remedy(finding.suggestion), "   ", hang="  ")
    yield from _symptoms(explanation)
    yield from _anatomies(explanation, 1)
    if not explanation.actionable:
        yield from _blind_spots(explanation)
    hidden = phrases.hidden(explanation)
    if hidden:
        yield ""
        yield from wrapped(f"not shown: {hidden}; -v shows all", "", hang="  ")


def _whole(explanation: Explanation, style: Style) -> Iterator[str]:
    answered, beside = explanation.actionable[:1], phrases.beside(explanation)
    for finding in explanation.findings:
        yield from _head(explanation, finding)
        yield from _evidence(finding.evidence)
        yield from _suggestion(
            finding, explanation.window, style, beside.get(finding.id, ""), reported=finding in answered
        )
    yield from _symptoms(explanation)
    yield from _anatomies(explanation, _ENTRIES_SHOWN)
    yield from _unseen(explanation)


def _head(explanation: Explanation, finding: Finding) -> Iterator[str]:
    """Yield what a finding says; what the first lines say is not said again."""
    numbers, answered = phrases.numbers(explanation), explanation.actionable[:1]
    yield ""
    head = f"{numbers[finding.id]}. {finding.check}, {finding.severity.value}, confidence {finding.confidence:.2f}"
    yield fitted(head, WIDTH)
    yield from wrapped(f"{phrases.where(finding)}; layer {finding.layer.value}", "   ")
    if finding not in answered:
        yield from wrapped(finding.summary, "   ")
        yield from wrapped(finding.doubt, "   ")
    yield from wrapped(phrases.impact(finding), "   ")
    if finding.caused_by in numbers:
        yield f"   caused by {numbers[finding.caused_by]}"


def _evidence(lines: Sequence[LedgerLine]) -> Iterator[str]:
    if lines:
        yield f"   {'evidence (+ for, - against)':<28}{'value':>10}  {'limit':<11}source"
    for line in lines:
        name, value, limit = fitted(line.signal, 26), fitted(phrases.value(line), 10), fitted(phrases.limit(line), 10)
        source = fitted(phrases.source(line), WIDTH - 54)
        yield f"   {_MARKS[line.met]} {name:<26}{value:>10}  {limit:<11}{source}"


def _suggestion(finding: Finding, window: WindowFacts, style: Style, beside: str, *, reported: bool) -> Iterator[str]:
    suggestion, advice = finding.suggestion, finding.advice
    if suggestion is None:
        return
    if not reported:
        yield from wrapped(phrases.remedy(suggestion), "   ", hang="  ")
        yield from wrapped(beside, "   ")
        yield from _patch(finding, window, style)
    if not _is_predicted(finding):
        yield from wrapped(phrases.end_to_end(finding), "   ")
    if suggestion.prediction:
        yield from wrapped(phrases.predicted(suggestion.prediction), "   ")
    if advice and advice.steps and advice.patch:
        yield from wrapped(f"undo: {advice.steps.undo}", "   ", hang="  ")


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


def _anatomies(explanation: Explanation, most: int) -> Iterator[str]:
    anatomy = phrases.entries(explanation)
    for item in anatomy[:most]:
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
    if len(anatomy) > most:
        yield f"  and {len(anatomy) - most} more"


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
    yield from _blind_spots(explanation)
    undecided = phrases.undecided(explanation)
    if undecided:
        yield ""
        yield "could not be decided:"
    for reason, checks in undecided.items():
        yield from wrapped(f"{', '.join(checks)}: {reason}", "  ", "- ")


def _blind_spots(explanation: Explanation) -> Iterator[str]:
    if explanation.blind_spots:
        yield ""
        yield "blind spots:"
    for what, why, fix in phrases.unseen(explanation):
        yield from wrapped(f"{', '.join(what)}: {why}{f'; {fix}' if fix else ''}", "  ", "- ")


def _window(explanation: Explanation) -> Iterator[str]:
    window = explanation.window
    if window.end <= 0:
        yield from wrapped(f"nothing was read from {', '.join(window.sources) or 'any source'}")
    else:
        yield from window_lines(window)
