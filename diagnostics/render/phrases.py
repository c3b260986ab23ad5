"""What text, Markdown and HTML say in the same words."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.check import Prediction, Suggestion
from diagnostics.diagnosis.explanation import Explanation, Verdict, WindowFacts, relevant
from diagnostics.diagnosis.finding import EndToEnd, Finding, Impact, Unpredicted
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.objective import P95, Objective, covered, latency_of
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.diagnosis.undecided import unseen_time
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, LedgerLine, least_worthwhile
from diagnostics.forecast.performance import Estimate
from diagnostics.signals.signal import Missing, Subject
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit, utc
from diagnostics.window.lifecycle import ServerChange


def beside(explanation: Explanation) -> dict[str, str]:
    """Return by a finding's id how its patch stands to the patch of an earlier finding, where both touch one model."""
    number, found = numbers(explanation), dict[str, str]()
    patched = [one for one in explanation.findings if one.advice and one.advice.patch and one.suggestion]
    for at, one in enumerate(patched):
        earlier = [other for other in patched[:at] if other.subject.model == one.subject.model]
        if earlier:
            found[one.id] = _beside(one, earlier[0], number[earlier[0].id])
    return found


def _beside(one: Finding, other: Finding, number: int) -> str:
    mine, theirs = _settings(one), _settings(other)
    if mine == theirs:
        return f"the same change as {number}: it needs to be made once"
    shared = any(a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.") for a in mine for b in theirs)
    where = "changes the same lines as" if shared else "changes the same file as"
    return f"{where} {number}; one change at a time: apply the patch of {number}, measure, then look again"


def _settings(finding: Finding) -> dict[str, object]:
    change = finding.suggestion.change if finding.suggestion else None
    return {setting.path: setting.value for setting in change.settings} if change else {}


def title(explanation: Explanation) -> str:
    """Return the verdict, with the root cause and what it is about where there is one."""
    verdict = explanation.verdict.value
    first = next(iter(explanation.actionable), None)
    return verdict if first is None else f"{verdict}: {cause_named(first)}"


BLIND_SPOTS = "telemetry-blind-spot"
"""The check whose finding says what the list of blind spots says."""


NO_IMPACT = Impact(mean_seconds=0.0, seconds_per_request=0.0, share_of_latency=0.0, share_of_requests_failed=0.0)


def first_line(explanation: Explanation) -> str:
    """Return the verdict, what users of the root cause's entry point feel, and that cause; the verdict without one."""
    verdict = explanation.verdict.value
    first = next(iter(explanation.actionable), None)
    if first is None:
        return verdict
    parts = (verdict, felt(explanation, first), cause_named(first))
    return ": ".join(part for part in parts if part)


def answer(explanation: Explanation) -> str:
    """Return what follows the verdict on the first line: what users feel and the root cause, else why there is none."""
    if explanation.actionable:
        return first_line(explanation).removeprefix(f"{explanation.verdict.value}: ")
    return headline(explanation)


def felt(explanation: Explanation, finding: Finding | None = None, subject: Subject | None = None) -> str:
    """Return what users of an entry point feel: latency, against its objective, failures and traffic.

    With a finding and without an objective, also the part of the mean that can be avoided: without either, a latency
    alone does not show whether it is long. Empty where nothing is known.

    Args:
        explanation: of what.
        finding: whose entry point, and what it takes from its requests.
        subject: whose entry point, without a finding; None for the busiest.

    """
    if finding is None:
        return _felt(explanation, subject, NO_IMPACT)
    words = _felt(explanation, finding.subject, finding.impact)
    now, after = mean_now(finding), mean_after(finding)
    if not words or explanation.objective is not None or after is None or now - after < least_worthwhile(now):
        return words
    return f"{words}, {Unit.RATIO.show(1 - after / now)} of the mean avoidable"


def _felt(explanation: Explanation, subject: Subject | None, impact: Impact) -> str:
    figure = _against_objective(explanation, subject, impact) if subject else ""
    item = next(iter(explanation.anatomy), None)
    if subject is not None:
        item = min(explanation.anatomy, key=lambda one: _distance(one, subject), default=None)
    if item is not None and subject is not None and not is_entry(item, subject):
        item = None
    parts = [figure] if figure else []
    failed = impact.share_of_requests_failed
    if not figure and item is not None and (subject or not unseen_time(explanation.evidence, item)):
        # What a load held back is in no counter, and in the finding's own mean.
        mean = max(item.mean_seconds, impact.mean_seconds)
        parts.append(f"{item.ensemble or item.stages[0].model} {_latency(explanation, item, mean)}")
    if not figure and failed > 0:
        parts.append(f"{Unit.RATIO.show(failed)} of requests fail")
    if item is not None:
        rate = explanation.evidence.read(REQUEST_RATE, _entry(item)).value
        parts += [f"{Unit.PER_SECOND.show(rate).removesuffix('/s')} requests/s"] if rate else []
    return ", ".join(parts)


def is_entry(item: Anatomy, on: Subject) -> bool:
    """Return whether requests of an entry point pass a subject; all do where that is no model."""
    return _distance(item, on) < 2


def _entry(item: Anatomy) -> Subject:
    return Subject(server=item.server, ensemble=item.ensemble, model=None if item.ensemble else item.stages[0].model)


class EntryLatency(NamedTuple):
    """A statistic of the request time of an entry point: its name, as `p95`, seconds, and the time that it covers.

    `over` is empty where that is the window.
    """

    statistic: str
    seconds: float
    over: str = ""


def entry_latency(
    explanation: Explanation, item: Anatomy, mean: float, objective: Objective | None = None
) -> EntryLatency:
    """Return the objective's statistic where it is measured, else the 95th percentile, else `mean` seconds."""
    wanted = [(objective.statistic, objective.quantile)] if objective is not None else []
    # Traces and summaries hold no more than counters do: not what was held back.
    wanted += [("p95", P95)] if mean == item.mean_seconds else []
    for statistic, quantile in wanted:
        measured = latency_of(explanation.evidence, item, quantile)
        if measured.value is not None:
            return EntryLatency(statistic, measured.value, covered(measured))
    return EntryLatency("mean", mean)


def _latency(explanation: Explanation, item: Anatomy, mean: float) -> str:
    found = entry_latency(explanation, item, mean, explanation.objective)
    shown = f"{found.statistic} {Unit.SECONDS.show(found.seconds)}{found.over}"
    return f"{shown}{beside_objective(found.statistic, explanation.objective)}"


def beside_objective(statistic: str, objective: Objective | None) -> str:
    """Return the objective as it follows a latency of that statistic, after a comma; empty without an objective."""
    if objective is None:
        return ""
    named = "" if statistic == objective.statistic else f"{objective.statistic} "
    return f", objective {named}{Unit.SECONDS.show(objective.seconds)}"


def _distance(item: Anatomy, on: Subject) -> int:
    """Return 0 for the entry point that a subject names, 1 for one whose requests pass its model, 2 for others."""
    if on.model is None and on.ensemble is None:
        return 0
    if on.server != item.server:
        return 2
    if (item.ensemble or item.stages[0].model) == (on.ensemble or on.model):
        return 0
    return 1 if on.ensemble is None and item.stage(on.model or "") is not None else 2


def entries(explanation: Explanation) -> list[Anatomy]:
    """Return where time goes, the entry point of the root cause first."""
    first = explanation.actionable[:1]
    return sorted(explanation.anatomy, key=lambda item: min((_distance(item, one.subject) for one in first), default=0))


def remedy(suggestion: Suggestion) -> str:
    """Return what to do, as `fix: …` or `mitigate: …`."""
    return f"{suggestion.remedy.value}: {suggestion.text}"


def commands(finding: Finding, window: WindowFacts) -> list[str]:
    """Return the commands that have a running server read an applied patch; none where it does so by itself."""
    how = finding.advice.steps if finding.advice else None
    address = window.addresses.get(finding.subject.server, "http://HOST:8000")
    return [f"curl -X POST {shlex.quote(address + path)}" for path in how.posts] if how else []


def hidden(explanation: Explanation) -> str:
    """Return how much a short report leaves out; empty where that is nothing."""
    unknown = {check for checks in undecided(explanation).values() for check in checks}
    others = [one for one in explanation.findings if one.check != BLIND_SPOTS and one.evidence]
    counted = (
        (
            len([one for one in others if one not in explanation.actionable[:1]]),
            "finding's evidence",
            "findings' evidence",
        ),
        (len(unseen(explanation)) if explanation.actionable else 0, "blind spot", "blind spots"),
        (len(unknown), "undecided check", "undecided checks"),
    )
    return ", ".join(f"{count} {one if count == 1 else several}" for count, one, several in counted if count)


def beside_first_line(explanation: Explanation) -> list[Symptom]:
    """Return the symptoms without the missed objective that the first line names beside the cause."""
    figure = against_objective(explanation)
    return [one for one in explanation.symptoms if not figure or not figure.startswith(one.figure or " ")]


def against_objective(explanation: Explanation) -> str:
    """Return latency beside its objective, and failures, of the entry point that the root cause is about.

    Empty where no objective is stated or missed, and where another entry point misses it.
    """
    first = next(iter(explanation.actionable), None)
    return _against_objective(explanation, first.subject, first.impact) if first else ""


def _against_objective(explanation: Explanation, subject: Subject, impact: Impact) -> str:
    entries = (subject.ensemble, subject.model)
    figure = next((one.figure for one in explanation.symptoms if one.figure and one.entry in entries), "")
    failed = impact.share_of_requests_failed
    return f"{figure}, {Unit.RATIO.show(failed)} of requests fail" if figure and failed > 0 else figure


def headline(explanation: Explanation) -> str:
    """Return the answer in one sentence: the root cause beside a missed objective, else why there is none."""
    if explanation.actionable:
        cause, figure = explanation.actionable[0].summary, against_objective(explanation)
        return f"{figure}: {cause}" if figure else cause
    return explanation.reason or _nothing_to_change(explanation)


def changes(explanation: Explanation) -> list[str]:
    """Return the changes of settings inside the window, as `changes_told`."""
    return changes_reported(explanation.changes)


def changes_reported(made: Sequence[tuple[str, ServerChange]]) -> list[str]:
    """Return changes of settings, each with its server, in their order with their times in UTC."""
    several = len({server for server, _ in made}) > 1
    return [
        f"settings of {change.model}{f' on {server}' if several else ''} changed "
        f"{utc(change.at):%H:%M:%S}: {change.differences}"
        for server, change in made
    ]


def next_step(explanation: Explanation) -> str:
    """Return what to do first, as `fix: …`, `mitigate: …` or `next: …`; empty when there is nothing to do."""
    for finding in explanation.actionable[:1]:
        if finding.suggestion:
            return remedy(finding.suggestion)
    if explanation.actionable or explanation.verdict in (Verdict.HEALTHY, Verdict.IDLE):
        return ""
    if explanation.window.untimed and explanation.blind_spots:
        return f"next: {explanation.blind_spots[0].whole_fix}"
    if explanation.next_measurement:
        return f"next: {explanation.next_measurement}"
    # Where checks could not decide, what they lacked shows more than any look at what is there.
    fixes = Counter(spot.fix for spot in explanation.blind_spots if spot.fix)
    if fixes and explanation.unknown:
        return f"next: {fixes.most_common(1)[0][0]}"
    return f"next: {explanation.symptoms[0].next_measurement}" if explanation.symptoms else ""


def next_command(explanation: Explanation) -> str:
    """Return the command that `next_step` ends with, which cannot be pasted once it is wrapped; empty without one."""
    command = explanation.blind_spots[0].command if explanation.blind_spots else ""
    return command if command and next_step(explanation).endswith(command) else ""


def rough(explanation: Explanation) -> str:
    """Return why the answer is to be taken with care, in sentences; empty where nothing speaks against it."""
    doubt = explanation.actionable[0].doubt if explanation.actionable else ""
    return f"{doubt} Check the cause before you act on it." if doubt else ""


def _nothing_to_change(explanation: Explanation) -> str:
    if not explanation.anatomy:
        return "nothing to judge"
    busiest = explanation.anatomy[0]
    name = busiest.ensemble or busiest.stages[0].model
    return f"requests of {name} take {Unit.SECONDS.show(busiest.mean_seconds)} on average, and no change would help"


def cause_named(found: Finding | Incident) -> str:
    """Return a check and the shortest name of what it is about: `cold-start of safety`."""
    return f"{found.check} of {subject_name(found)}"


def subject_name(found: Finding | Incident) -> str:
    """Return the shortest name of what a finding or an incident is about."""
    subject = found.subject
    return subject.model or subject.ensemble or subject.gpu_name or subject.server


def names(finding: Finding) -> list[tuple[str, str]]:
    """Return the whole subject as pairs of a word and a name: model, version, GPU, ensemble and server."""
    subject = finding.subject
    parts = (
        ("model", subject.model),
        ("version", subject.version),
        ("GPU", subject.gpu),
        ("in" if subject.model else "ensemble", subject.ensemble),
        ("on", subject.server),
    )
    return [(word, name) for word, name in parts if name]


def where(finding: Finding) -> str:
    """Return the whole subject in words, and since when, if that is inside the window."""
    began = since(finding)
    return " ".join(f"{word} {name}" for word, name in names(finding)) + (f", {began}" if began else "")


def since(finding: Finding) -> str:
    """Return when it began and what happened then: `since 21:12:54Z (safety version 2 loaded)`; empty if unknown."""
    if finding.onset is None:
        return ""
    change = f" ({finding.onset.change})" if finding.onset.change else ""
    return f"since {utc(finding.onset.at):%H:%M:%SZ}{change}"


def impact(finding: Finding) -> str:
    """Return what users lose to it; empty when it costs no time and no request."""
    harm, parts = finding.impact, []
    if harm.seconds_per_request > 0:
        share = Unit.RATIO.show(harm.share_of_latency)
        parts.append(f"takes {Unit.SECONDS.show(harm.seconds_per_request)} of each request ({share})")
    if harm.share_of_requests_failed > 0:
        parts.append(f"fails {Unit.RATIO.show(harm.share_of_requests_failed)} of requests")
    return ", ".join(parts)


def predicted(prediction: Prediction) -> str:
    """Return a prediction as one sentence with its interval, or with what would make it unlimited."""
    show = Unit.SECONDS.show
    interval = between(prediction.low_seconds, prediction.high_seconds)
    assumes = f"; assumes that {'; '.join(prediction.assumptions)}" if prediction.assumptions else ""
    what = f"{prediction.phase.value}{f' of {prediction.model}' if prediction.model else ''}"
    return (
        f"predicted {what}: {show(prediction.now_seconds)} → "
        f"{show(prediction.predicted_seconds)} ({interval}, estimated{assumes}){_unless(prediction)}"
    )


def between(low: float, high: float | None) -> str:
    """Return an interval of predicted seconds; `high` is None where the load may be more than can be served."""
    show = Unit.SECONDS.show
    if high is None:
        return f"{show(low)} or more: it may still not keep up with the load"
    return f"{show(low)} to {show(high)}"


def saved(one: Estimate) -> str:
    """Return what a change takes off a request, with the interval of the difference; a loss is what it costs."""
    low, high = one.low, one.high
    if one.value >= 0:
        ends = f"{_signed(low)} or more" if high is None else f"{_signed(low)} to {_signed(high)}"
    else:
        ends = f"at most {_signed(-low)}" if high is None else f"{_signed(-high)} to {_signed(-low)}"
    return f"{'saves' if one.value >= 0 else 'costs'} {Unit.SECONDS.show(abs(one.value))} ({ends})"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else ''}{Unit.SECONDS.show(abs(seconds))}"


def _unless(prediction: Prediction | None) -> str:
    """Return in which case, that was not seen, nothing is gained; empty where none is known."""
    return f"; no gain if {prediction.unless}" if prediction is not None and prediction.unless else ""


def mean_now(finding: Finding) -> float:
    """Return the mean seconds of the entry's requests, as `mean_after` is to be set against."""
    return finding.effect.now_mean if isinstance(finding.effect, EndToEnd) else finding.impact.mean_seconds


def mean_after(finding: Finding) -> float | None:
    """Return the mean seconds of the entry's requests with the suggestion; None when that is not predicted.

    Where nothing was forecast end to end, it is the mean less what the finding takes.
    """
    if finding.effect is not None:
        return finding.effect.mean.value if isinstance(finding.effect, EndToEnd) else None
    if finding.suggestion is None or finding.suggestion.prediction is None or finding.impact.mean_seconds <= 0:
        return None
    return max(finding.impact.mean_seconds - finding.impact.seconds_per_request, 0.0)


def end_to_end(finding: Finding) -> str:
    """Return what is predicted of the entry's requests, or why nothing is; empty when there is nothing to say."""
    unless = _unless(finding.suggestion.prediction if finding.suggestion else None)
    if isinstance(finding.effect, EndToEnd):
        return _both_ends(finding.effect, unless)
    if isinstance(finding.effect, Unpredicted):
        return f"end to end not predicted: {finding.effect.because}"
    after = mean_after(finding)
    if after is None:
        return ""
    name = finding.subject.ensemble or finding.subject.model
    now = Unit.SECONDS.show(finding.impact.mean_seconds)
    return f"predicted mean of {name}: measured {now} → {Unit.SECONDS.show(after)}{unless}"


def _both_ends(effect: EndToEnd, unless: str) -> str:
    show, mean = Unit.SECONDS.show, effect.mean
    interval = "" if effect.misses else f" ({between(mean.low, mean.high)})"
    stated = f"measured mean {show(effect.now_mean)} → {show(mean.value)}{interval}"
    if effect.p95 is not None and effect.now_p95 is not None:
        stated += f", measured p95 {show(effect.now_p95)} → {show(effect.p95.value)}"
    if effect.saving is not None and not effect.misses:
        stated += f"; {saved(effect.saving)}"
    by = "" if effect.simulated else ", by formulas"
    return f"predicted end to end: {stated}{by}{unless}{f'. {effect.doubt}' if effect.doubt else ''}"


def speaks(line: LedgerLine) -> str:
    """Return whether an evidence line speaks `for` or `against` its finding; `unknown` when it is absent."""
    return {True: "for", False: "against", None: "unknown"}[line.met]


def _is_setting(line: LedgerLine) -> bool:
    """Return whether a line asks for yes or no: `Ledger.is_set` of what is counted as 0 or 1."""
    return line.limit == 0 and line.sign in (">", "<=") and line.reading.unit is Unit.COUNT


def value(line: LedgerLine) -> str:
    """Return an evidence line's value, `yes` or `no` of a setting, `unknown` when it is absent."""
    if _is_setting(line) and line.reading.value in (0, 1):
        return "yes" if line.reading.value else "no"
    return "unknown" if line.reading.missing is not None else line.reading.unit.show(line.reading.value)


def limit(line: LedgerLine) -> str:
    """Return what the value was compared with; `yes` or `no` of a setting."""
    if _is_setting(line) and line.reading.value in (0, 1):
        return "yes" if line.sign == ">" else "no"
    return f"{line.sign} {line.reading.unit.show(line.limit)}"


def source(line: LedgerLine) -> str:
    """Return where the value is from, or why it is absent."""
    reading = line.reading
    if reading.missing is not None:
        return reading.missing.value.replace("_", " ")
    names = (reading.source or "—").replace(" and ", "+")
    return f"{names}, estimated" if reading.estimated else names


class Unseen(NamedTuple):
    """What could not be seen for one reason and with one remedy."""

    what: tuple[str, ...]
    why: str
    fix: str


def unseen(explanation: Explanation) -> list[Unseen]:
    """Return the blind spots, those with one reason and remedy together."""
    found: dict[tuple[str, str], list[str]] = {}
    for spot in explanation.blind_spots:
        found.setdefault((spot.why, spot.whole_fix), []).append(spot.what.rstrip("."))
    return [Unseen(tuple(what), why, fix) for (why, fix), what in found.items()]


def undecided(explanation: Explanation) -> dict[str, list[str]]:
    """Return by absent reading and reason, as `instances not exported`, the checks that it kept from deciding.

    What idles is left out, as there is nothing to decide, and what could not change the verdict.
    """
    found: dict[str, set[str]] = {}
    kept = relevant(explanation.evidence, explanation.results, explanation.anatomy, explanation.verdict)
    matter = {id(result) for result in kept}
    for result, unknown in explanation.unknown:
        if unknown.reason is Missing.IDLE or id(result) not in matter:
            continue
        reason = f"{unknown.signal} {unknown.reason.value.replace('_', ' ')}"
        found.setdefault(reason, set()).add(result.check.id)
    return {reason: sorted(checks) for reason, checks in found.items()}


def share(seconds: float, item: Anatomy) -> str:
    """Return what part of a request's time some seconds are."""
    part = seconds / item.mean_seconds if item.mean_seconds > 0 else None
    if part is None:
        return "—"
    return "<0.01 %" if 0 < part < 1e-4 else Unit.RATIO.show(part)


def rest(item: Anatomy) -> str:
    """Return what the time is called that no stage accounts for; only traces show where it passes."""
    if item.ensemble:
        return "between stages"
    return "outside the model" if item.source == "traces" else "not accounted for"


def derivation(item: Anatomy) -> str:
    """Return how the time was derived that no stage accounts for; empty where it was traced, or is hardly any."""
    seconds = item.unattributed_seconds
    if item.ensemble or item.source == "traces" or seconds < least_worthwhile(item.mean_seconds):
        return ""
    name, cells = item.stages[0].model, item.stages[0].cells
    if not cells.get(Phase.COMPUTE) and not cells.get(Phase.ENGINE):
        less = " less the queue above" if cells.get(Phase.QUEUE) else ""
        unread = "the time of their executions was" if less else "their queue and the time of their executions were"
        return f"{Unit.SECONDS.show(seconds)} is the duration of {name}'s requests{less}: {unread} not read"
    return (
        f"{Unit.SECONDS.show(seconds)} is the duration of {name}'s requests less the queue, input, compute and output "
        "above. Its cause was not measured: models that it calls, an engine, or the frontend. Traces show it"
    )


def beside_path(item: Anatomy) -> list[str]:
    """Return a sentence for each stage that costs less than it takes, since another branch runs beside it."""
    show = Unit.SECONDS.show
    return [
        f"{stage.model} runs beside another branch: shortening it saves at most {show(stage.most_seconds)} of its "
        f"{show(stage.seconds)}"
        if stage.most_seconds > 0
        else f"{stage.model} runs beside a longer branch: shortening it saves nothing"
        for stage in item.stages
        if stage.seconds - stage.most_seconds >= WORTHWHILE_SECONDS
    ]


def numbers(explanation: Explanation) -> dict[str, int]:
    """Return the number that each finding is shown under, by its id."""
    return {finding.id: number for number, finding in enumerate(explanation.findings, 1)}


def where_spent(explanation: Explanation, item: Anatomy) -> str:
    """Return what the table of an entry shows: its requests' time, or only its row's where that may end before them."""
    name, mean = item.ensemble or item.stages[0].model, Unit.SECONDS.show(item.mean_seconds)
    if unseen_time(explanation.evidence, item):
        return f"the row of {name} takes {mean}, and may end before its requests do"
    return f"where {name} spends its {mean}"


def basis(item: Anatomy) -> str:
    """Return what an anatomy is a mean of, and how far single requests are from it where traces show that."""
    if item.spread is None:
        return f"mean of {item.requests:.0f} requests, from {item.source}"
    show = Unit.SECONDS.show
    return (
        f"mean of {item.traced} traced requests of {item.requests:.0f}; "
        f"median {show(item.spread.p50)}, 95 % under {show(item.spread.p95)}"
    )
