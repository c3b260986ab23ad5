"""The explanation as a document: what is wrong and what to do comes first, then the evidence, then the rest."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict, WindowFacts
from diagnostics.diagnosis.finding import Finding, Unpredicted
from diagnostics.render import phrases
from diagnostics.render.document import (
    Block,
    Code,
    Document,
    Heading,
    Headline,
    Points,
    Sentence,
    Table,
    TableColumn,
    patch_language,
)
from diagnostics.render.plain import window_text
from diagnostics.units import Unit

_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
# More entries than this push the answer off the screen; JSON and HTML hold them all.
_ENTRIES_SHOWN = 3
_EVIDENCE = "evidence (+ for, - against)"
# Columns of a signal's name, so that its values fit beside it; a longer one has a line of its own.
_MOST_OF_A_NAME = 44
_MARKS = {True: "+", False: "-", None: "?"}


def explanation_document(explanation: Explanation, *, verbose: bool = True) -> Document:
    """Return the report: what users feel and why, the patch, the evidence, then the rest.

    Args:
        explanation: what to show.
        verbose: show all of it: evidence and patches of all findings, every entry, assumptions and blind spots. Else
            what somebody needs who was just paged, in about 40 lines.

    """
    rest = _whole(explanation) if verbose else _short(explanation)
    return [*_answer(explanation), *rest, Sentence(text=_window(explanation.window))]


def _lines(*texts: str, indent: int = 2, hang: int = 2, apart: bool = False) -> Points:
    return Points(items=texts, marked=False, indent=indent, hang=hang, apart=apart)


def _answer(explanation: Explanation) -> Iterator[Block]:
    """Yield what is wrong and what to do about it, the patch with its effect included."""
    verdict = explanation.verdict
    yield Sentence(text=explanation.stale, under=0, colour="yellow")
    if explanation.actionable:
        first = explanation.actionable[0]
        yield Headline(verdict=verdict.value, text=phrases.answer(explanation), colour=_COLOURS[first.severity])
        yield Sentence(text=first.summary, under=2)
        yield Sentence(text=phrases.rough(explanation), under=2)
    else:
        colour = "green" if verdict is Verdict.HEALTHY else "yellow"
        yield Headline(verdict=verdict.value, text=phrases.answer(explanation), colour=colour)
    command = phrases.next_command(explanation)
    yield _lines(phrases.next_step(explanation).removesuffix(command))
    yield Code(text=command, language="sh", under=4)
    yield _lines(*phrases.changes(explanation))
    for first in explanation.actionable[:1]:
        yield from _patch(first, explanation.window)


def _patch(finding: Finding, window: WindowFacts) -> Iterator[Block]:
    """Yield a patch, its predicted effect, what it touches and how it is applied."""
    advice = finding.advice
    patch, steps = (advice.patch, advice.steps) if advice else (None, None)
    if patch:
        yield Code(text=patch.text, language=patch_language(patch))
    yield _lines(
        phrases.end_to_end(finding) if _is_predicted(finding) else "",
        steps.touches if steps else "",
        f"note: {advice.note}" if advice and advice.note else "",
        f"apply: {steps.how}" if steps and patch else "",
        apart=patch is not None,
    )
    if steps and patch:
        yield Code(text="\n".join(phrases.commands(finding, window)), language="sh", under=4)


def _is_predicted(finding: Finding) -> bool:
    """Return whether an effect is stated; why it is not is for those who ask for all."""
    return not isinstance(finding.effect, Unpredicted)


def _short(explanation: Explanation) -> Iterator[Block]:
    first = explanation.actionable[:1]
    for finding in explanation.findings:
        if finding.check == phrases.BLIND_SPOTS:
            continue
        yield from _head(explanation, finding)
        if finding in first:
            yield _evidence(finding)
        elif finding.suggestion:
            yield _lines(phrases.remedy(finding.suggestion), indent=3)
    yield _symptoms(explanation)
    yield from _anatomies(explanation, 1)
    if not explanation.actionable:
        yield _blind_spots(explanation)
    hidden = phrases.hidden(explanation)
    yield _lines(f"not shown: {hidden}; -v shows all" if hidden else "", indent=0, apart=True)


def _whole(explanation: Explanation) -> Iterator[Block]:
    answered, beside = explanation.actionable[:1], phrases.beside(explanation)
    for finding in explanation.findings:
        yield from _head(explanation, finding)
        yield _evidence(finding)
        yield from _suggestion(finding, explanation.window, beside.get(finding.id, ""), reported=finding in answered)
    yield _symptoms(explanation)
    yield from _anatomies(explanation, _ENTRIES_SHOWN)
    yield _blind_spots(explanation)
    undecided = phrases.undecided(explanation).items()
    yield Points(title="could not be decided", items=[f"{', '.join(checks)}: {why}" for why, checks in undecided])


def _head(explanation: Explanation, finding: Finding) -> Iterator[Block]:
    """Yield what a finding says; what the first lines say is not said again."""
    numbers, new = phrases.numbers(explanation), finding not in explanation.actionable[:1]
    head = f"{numbers[finding.id]}. {finding.check}, {finding.severity.value}, confidence {finding.confidence:.2f}"
    yield Heading(text=head)
    yield _lines(
        f"{phrases.where(finding)}; layer {finding.layer.value}",
        finding.summary if new else "",
        finding.doubt if new else "",
        phrases.impact(finding),
        f"caused by {numbers[finding.caused_by]}" if finding.caused_by in numbers else "",
        indent=3,
        hang=0,
    )


def _evidence(finding: Finding) -> Table:
    """Return the evidence; a signal's name is never cut, since it is what one looks up."""
    longest = max((len(line.signal) for line in finding.evidence), default=0)
    return Table(
        columns=(
            TableColumn(head=_EVIDENCE, width=max(len(_EVIDENCE), min(longest + 2, _MOST_OF_A_NAME)) + 2, wraps=True),
            TableColumn(head="value", width=9, right=True),
            TableColumn(head="limit", width=11),
            TableColumn(head="source", wraps=True),
        ),
        rows=[
            (f"{_MARKS[line.met]} {line.signal}", phrases.value(line), phrases.limit(line), phrases.source(line))
            for line in finding.evidence
        ],
        indent=3,
        under=True,
    )


def _suggestion(finding: Finding, window: WindowFacts, beside: str, *, reported: bool) -> Iterator[Block]:
    suggestion, advice = finding.suggestion, finding.advice
    if suggestion is None:
        return
    if not reported:
        yield _lines(phrases.remedy(suggestion), indent=3)
        yield _lines(beside, indent=3, hang=0)
        yield from _patch(finding, window)
    yield _lines(
        "" if _is_predicted(finding) else phrases.end_to_end(finding),
        phrases.predicted(suggestion.prediction) if suggestion.prediction else "",
        indent=3,
        hang=0,
    )
    if advice and advice.steps and advice.patch:
        yield _lines(f"undo: {advice.steps.undo}", indent=3)


def _symptoms(explanation: Explanation) -> Points:
    """Return what is not explained; where nothing is, the first of it is the answer and was said."""
    reported = phrases.headline(explanation)
    stated = phrases.beside_first_line(explanation)
    left = [f"{one.text}; next: {one.next_measurement}" for one in stated if one.text != reported]
    return Points(title="also seen" if explanation.actionable else "also seen, and not explained", items=left)


def _anatomies(explanation: Explanation, most: int) -> Iterator[Block]:
    anatomy = phrases.entries(explanation)
    for item in anatomy[:most]:
        where = f" on {item.server}" if len({each.server for each in anatomy}) > 1 else ""
        yield Heading(text=f"{phrases.where_spent(explanation, item)}{where} ({phrases.basis(item)}):")
        yield Table(columns=_STAGES, rows=list(_stages(item)), under=True)
        for sentence in (phrases.derivation(item), *phrases.beside_path(item)):
            yield Sentence(text=sentence, under=2)
    if len(anatomy) > most:
        yield Sentence(text=f"and {len(anatomy) - most} more", under=2)


_STAGES = (
    TableColumn(head="stage", width=24),
    *(TableColumn(head=head, width=9, right=True) for head in ("queue", "compute", "in+out", "engine", "all")),
    TableColumn(head="share", width=8, right=True),
)


def _stages(item: Anatomy) -> Iterator[tuple[str, ...]]:
    for stage in item.stages:
        yield stage.model, *_cells(stage), _cell(stage.seconds), phrases.share(stage.seconds, item)
    left = item.unattributed_seconds
    if left > 0:
        yield phrases.rest(item), "", "", "", "", _cell(left), phrases.share(left, item)


def _cells(stage: Stage) -> Iterator[str]:
    for phases in ((Phase.QUEUE,), (Phase.COMPUTE,), (Phase.INPUT, Phase.OUTPUT), (Phase.ENGINE,)):
        yield _cell(sum(stage.cells.get(phase, 0.0) for phase in phases))


def _cell(seconds: float) -> str:
    return "—" if seconds == 0 else Unit.SECONDS.show(seconds)


def _blind_spots(explanation: Explanation) -> Points:
    items = [f"{', '.join(what)}: {why}{f'; {fix}' if fix else ''}" for what, why, fix in phrases.unseen(explanation)]
    return Points(title="blind spots", items=items)


def _window(window: WindowFacts) -> str:
    if window.end > 0:
        return window_text(window)
    return f"nothing was read from {', '.join(window.sources) or 'any source'}"
