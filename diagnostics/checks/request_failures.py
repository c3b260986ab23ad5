"""A model answers requests with errors.

## Looks for
A model reports failures of its own. Or clients get HTTP 400 or 404 from a model that is there, and no counter shows
it. Or they get HTTP 500 for requests that the server counts as successes. Or one stage completed requests that the next
stage never received, while the ensemble reports failures.

## Means
The backend raises, or the model returns an error response. Since Triton 24.06, a Python model's error answer counts as
a success. Only clients, the flow between stages and the ensemble's own failures show it. The server
refuses requests with more rows than `max_batch_size`, another shape or a version that is gone. It does not count them.

## Rules out
- Requests that a limited queue refuses, or that outlive its timeout (`queue-rejections`): they never execute. If the
  queue may refuse requests and no reasons are counted, nothing is reported.
- Requests in flight: those that wait at the next stage are subtracted.
- An instance whose process is gone (`execution-hung`), if requests wait or its processes can be counted. It fails one
  request per second, evenly. If nothing else shows it, the finding lists what to check.
- Turns of sequences that wait too long for a slot (`sequence-batcher-starved`): the server refuses them like that. If
  no turn waits, refused ones belong to sequences that have ended, as after a pause between turns.
- Cancelled requests of few clients: below 1 % and five requests, nothing is reported.

## Do
1. Read the server's log and the error text that clients get for this model.
2. Send one failing request to this model alone: `curl -X POST HOST:8000/v2/models/NAME/infer -d @request.json`.
3. If a version was deployed recently, restore the previous one (`version_policy`).

## Sources
Triton core, failure reasons (24.07). server#7713, server#8521 (a returned error counts as success). One failed ensemble
request counts twice in the ensemble's failures; the count is halved here.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.entries import ENOUGH_FAILURES, FAILED_PART, caller_of, failed_share, is_newest, waits
from diagnostics.checks.gates import QUEUE
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.flow import FAILED_REQUESTS, LOST_AFTER_STAGE, REJECTED_REQUESTS
from diagnostics.signals.gone_processes import GONE_PROCESSES
from diagnostics.signals.outages import ERROR_ANSWERS, NOT_TAKEN
from diagnostics.signals.settings import MAX_BATCH_SIZE, QUEUE_LIMIT
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import REQUESTS, SEQUENCE_BATCHING
from diagnostics.units import Unit

EXPLAINED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="the stage that loses under half of what the ensemble reports failed is not the one to look at first",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"failed_requests": ENOUGH_FAILURES, "failed_share": FAILED_PART, "explained_share": EXPLAINED},
    symptom="requests-fail",
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    return _not_taken(ledger, subject) or _answered_with_errors(ledger, subject) or _counted(ledger, subject)


def _not_taken(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that the server does not take what clients send; None where it is not seen, or is counted."""
    refused = ledger.evidence.read(NOT_TAKEN, Subject(server=subject.server, model=subject.model))
    counted = ledger.evidence.read(FAILED_REQUESTS, subject).value or 0.0
    if not refused.value or not refused.events or counted >= ENOUGH_FAILURES.value:
        return None
    if not is_newest(ledger, subject):
        return None
    if ledger.evidence.read(SEQUENCE_BATCHING, subject).value and waits(ledger, subject, QUEUE):
        return None  # turns of a sequence that waits too long for a slot are refused alike
    either, share = ledger.as_alternative(), refused.value / refused.events
    part = Reading.of(share, Unit.RATIO, refused.source, events=refused.events)
    if not either.compare("failed_requests", refused, ENOUGH_FAILURES):
        return None
    if not either.compare("failed_share", part, FAILED_PART):
        return None
    return Fires(
        summary=f"clients get HTTP errors for {Unit.RATIO.show(share)} of their requests to {subject.model} "
        f"({Unit.COUNT.show(refused.value)} in the window), and no counter shows them: the server does not take them",
        failed_share=share,
        suggestion=Suggestion(text=_as_taken(ledger, subject), remedy=Remedy.MITIGATE),
    )


def _answered_with_errors(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that a model's answers are errors, which only clients see; None where none are known."""
    errors = ledger.evidence.read(ERROR_ANSWERS, Subject(server=subject.server, model=subject.model))
    if not errors.value or errors.value < ENOUGH_FAILURES.value or not is_newest(ledger, subject):
        return None
    either = ledger.as_alternative()
    either.compare("failed_requests", errors, ENOUGH_FAILURES)
    found = _judge(either, subject, errors, "answers")
    return found if isinstance(found, Fires) else None


def _as_taken(ledger: Ledger, subject: Subject) -> str:
    if ledger.evidence.read(SEQUENCE_BATCHING, subject).value:
        return (
            f"read the error text that clients of {subject.model} get. Turns of sequences that have ended are refused: "
            "raise max_sequence_idle_microseconds above the longest pause between two turns, and let each sequence "
            "begin with its START flag"
        )
    most = ledger.read(MAX_BATCH_SIZE, subject).value
    rows = f"at most {most:.0f} rows a request" if most else "rows"
    return (
        f"read the error text that clients of {subject.model} get, and compare their requests with its configuration: "
        f"{rows}, names, types and shapes of the inputs, and the version asked for"
    )


def _counted(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide by what the server counts."""
    own = _own_failures(ledger, subject)
    if own.value is not None and own.value >= ENOUGH_FAILURES.value:
        ledger.need(
            QUEUE_LIMIT, subject
        )  # without its configuration it may be an ensemble, whose failures are its members'
        _refusals_are_distinguished(ledger, subject)
        return _judge(ledger, subject, own, "reports")
    lost = ledger.read(LOST_AFTER_STAGE, subject)
    if lost.value is None:
        ledger.compare("failed_requests", own, ENOUGH_FAILURES)
        return Quiet(because="the model reports no failures, and no stage follows it")
    if not ledger.compare("lost_after_stage", lost, ENOUGH_FAILURES):
        return Quiet(because="what the model completed reached the next stage")
    failed = ledger.read(FAILED_REQUESTS, caller_of(ledger, subject))
    if not ledger.compare("failed_requests", failed, ENOUGH_FAILURES):
        return Quiet(because="no caller reports failures")
    # Without the next stage's configuration nobody knows whether it refuses requests at its own queue.
    if any(ledger.need(QUEUE_LIMIT, next_stage) for next_stage in _next_stages(ledger, subject)):
        return Quiet(because="the next stage limits its queue: requests may have been refused there")
    lost = lost - _expired(ledger, subject)
    if not ledger.compare("explained_share", lost / failed, EXPLAINED):
        return Quiet(because="most failures happen elsewhere")
    least = Reading.of(min(lost.value or 0.0, failed.value or 0.0), Unit.COUNT, lost.source, estimated=True)
    return _judge(ledger, subject, least, "answers")


def _own_failures(ledger: Ledger, subject: Subject) -> Reading:
    failed, rejected = ledger.read(FAILED_REQUESTS, subject), ledger.evidence.read(REJECTED_REQUESTS, subject)
    if failed.missing is Missing.IDLE:
        return Reading.of(0.0, Unit.COUNT, failed.source)
    return failed if rejected.value is None else failed - rejected


def _refusals_are_distinguished(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where a queue may refuse requests and the reasons of failures cannot be read.

    Raises:
        Undecided: the statistics alone count failures, whatever their reason; a page that lacks a family may call the
            model idle.

    """
    rejected, config = ledger.evidence.read(REJECTED_REQUESTS, subject), ledger.evidence.config(subject)
    batching = config.dynamic_batching if config else None
    if rejected.value is None and batching and batching.may_refuse:
        raise Undecided(REJECTED_REQUESTS.name, rejected.missing or Missing.NOT_EXPORTED)


def _next_stages(ledger: Ledger, subject: Subject) -> Sequence[Subject]:
    ensemble = ledger.evidence.graph(subject.server).ensembles.get(caller_of(ledger, subject).ensemble or "")
    followers = ensemble.after(subject.model or "") if ensemble else ()
    return [Subject(server=subject.server, model=model) for model in followers]


def _expired(ledger: Ledger, subject: Subject) -> Reading:
    """Return how many requests reached a next stage and outlived its queue's timeout, where that is counted."""
    stages = _next_stages(ledger, subject)
    for next_stage in stages:
        _refusals_are_distinguished(ledger, next_stage)
    counts = [ledger.evidence.read(REJECTED_REQUESTS, next_stage).value or 0.0 for next_stage in stages]
    return Reading.of(max(counts, default=0.0), Unit.COUNT, "metrics", estimated=True)


def _judge(ledger: Ledger, subject: Subject, failed: Reading, how: str) -> Fires | Quiet:
    share = failed_share(ledger, subject, failed)
    if not ledger.compare("failed_share", share, FAILED_PART):
        return Quiet(because="hardly any request fails")
    text = f"read the log and the error text of {subject.model}; if a version was just deployed, go back"
    if ledger.evidence.read(GONE_PROCESSES, subject).value:
        text += (
            "; failures come evenly, about one a second, as where a process of its instances is gone: count them on "
            "the server's machine (pgrep -fc triton_python_backend_stub), and reload the model if one is missing"
        )
    return Fires(
        summary=f"{subject.model} {how} errors for {Unit.RATIO.show(share.value)} of requests "
        f"({Unit.COUNT.show(failed.value)} in the window)",
        failed_share=share.value or 0.0,
        suggestion=Suggestion(text=text, remedy=Remedy.MITIGATE),
    )


_ERRORS = {FAILED_REQUESTS: 0, REJECTED_REQUESTS: 0, REQUESTS: 644, LOST_AFTER_STAGE: 0, QUEUE_LIMIT: 0}
CASES = (
    CheckCase.fires("when the model reports failures", {**_ERRORS, FAILED_REQUESTS: 100}),
    CheckCase.quiet("when its only failures are rejections", {**_ERRORS, FAILED_REQUESTS: 100, REJECTED_REQUESTS: 100}),
    CheckCase.quiet("when few of many fail", {**_ERRORS, FAILED_REQUESTS: 6, REQUESTS: 64_000}),
    CheckCase.quiet("when nothing fails", _ERRORS),
    CheckCase.unknown("when failures are not exported", {REQUESTS: 644}),
)
