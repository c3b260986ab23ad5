"""A requested model, or the whole server, was not available.

## Looks for
No version of a model was READY, by the index, the log or counters that omit it. Or a server, or only its inference
port, answered no read. Requests that arrived meanwhile are counted from clients' failures, or else from the usual rate.
Or a server stood still and then went on: stopped threads, no CPU use, or no answer to anybody. Also loads that failed,
by the index or the log, and that no later load replaced.

## Means
Requests to the model, and to each ensemble that calls it, are refused at once, and no counter shows it: Triton counts
only what it accepts. Slowness after its return, such as cold executions, is a consequence. If a new version failed,
users still get the old one: the deployment did not happen.

## Rules out
- A model that nobody requested when it was unloaded.
- Traffic that pauses by itself: index and log show no outage, or gaps of that length are usual.
- A reload in place, or a new version beside the old one: some version is always READY.
- Replicas that received the requests meanwhile.
- Reads that failed while counters moved on or requests waited inside.
- A version that is still loading.
- A server that idles: a stopped one answers no read, and usually uses CPU.
- An ensemble whose member is missing: the member is named instead.

## Do
1. Read the state and its reason (`curl -X POST HOST:8000/v2/repository/index`). Then read the server's log at that
   time: an unload, a missing file, a wrong shape, memory, a crash.
2. Load it (`curl -X POST HOST:8000/v2/repository/models/NAME/load`), or restore the previous version
   (`version_policy`).
3. If the server stands still, find what stops it: `grep -E 'State|TracerPid' /proc/PID/status`, `cgroup.freeze` and
   `cpu.max` of its cgroup, or a pause of its virtual machine.
4. Prevent it: add the new version beside the old one, instead of an unload and a load. Remove a replica from the load
   balancer before you stop it. Let the deployment wait for READY, and fail without it.

## Sources
Triton, "Model Repository Extension" (index states and reasons). Core, `model_lifecycle.cc`: a failing reload leaves the
old version READY. Its error appears only in the answer and the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.checks.entries import ENOUGH_FAILURES
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.absences import PORT_REFUSES
from diagnostics.signals.availability import FAILED_VERSIONS, MODEL_WANTED, OF_A_MEMBER, READY_VERSIONS
from diagnostics.signals.outages import (
    AWAY_WITH_ANOTHER,
    REFUSED_REQUESTS,
    REFUSED_SHARE,
    STILL_UNAVAILABLE,
    STOPPED_SECONDS,
    UNAVAILABLE_SECONDS,
)
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.units import Unit
from diagnostics.window.lifecycle import UNAVAILABLE, UNLOADED_REASON, Happened
from diagnostics.window.outages import (
    HOST,
    INDEX,
    LOADING,
    LOG,
    PORT,
    READS,
    REFUSING,
    RESTARTED,
    STOPPED,
    UNLOADING,
    Outage,
)
from diagnostics.window.view import METRICS, STATISTICS

FAILED = Limit(value=1, unit=Unit.COUNT, because="a load either succeeds or fails")
CLOSED = Limit(value=1, unit=Unit.COUNT, because="a port that refuses connections refuses every request")
STOOD_STILL = Limit(
    value=1,
    unit=Unit.SECONDS,
    because="twice as long as Triton's own batcher sleeps at most (0.5 s): no scheduler holds requests up for so long",
)
# Who is asked all the time keeps one request in twenty waiting then: as many as failures are critical from.
MUCH_OF_IT = 0.05
# Reasons are texts of backends, some with a whole traceback.
SHOWN_REASON = 160
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.LISTED,
    limits={
        "failed_versions": FAILED,
        "refused_while_unavailable": ENOUGH_FAILURES,
        "inference_port_refuses": CLOSED,
        "stopped_seconds": STOOD_STILL,
    },
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model of the repository, or for a server that did not answer for a while."""
    either = ledger.as_alternative()
    if ledger.evidence.read(STOPPED_SECONDS, subject).value and either.at_least(STOPPED_SECONDS, subject, STOOD_STILL):
        return _stood_still(ledger, subject)
    if ledger.evidence.read(REFUSED_REQUESTS, subject).value and either.at_least(
        REFUSED_REQUESTS, subject, ENOUGH_FAILURES
    ):
        if ledger.evidence.read(AWAY_WITH_ANOTHER, subject).value:
            return Quiet(because="it was away because another model was")
        return _outage(ledger, subject)
    if ledger.evidence.read(PORT_REFUSES, subject).value and either.at_least(PORT_REFUSES, subject, CLOSED):
        return _closed_port(ledger, subject)
    if subject.model is None:
        return Quiet(because="nothing shows that requests were refused while it did not answer")
    if ledger.evidence.read(FAILED_VERSIONS, subject).missing is Missing.NOT_EXPORTED:
        raise Undecided(FAILED_VERSIONS.name, Missing.NOT_EXPORTED)
    if not ledger.at_least(FAILED_VERSIONS, subject, FAILED):
        return Quiet(because="no load failed, and no client requested it while it was away")
    return _failed_load(ledger, subject)


# --- it was not there


def _outage(ledger: Ledger, subject: Subject) -> Fires:
    found, still = ledger.evidence.outages(subject), ledger.need(STILL_UNAVAILABLE, subject) > 0
    seconds, share = ledger.read(UNAVAILABLE_SECONDS, subject), ledger.need(REFUSED_SHARE, subject)
    refused = ledger.evidence.read(REFUSED_REQUESTS, subject)
    about = "at the earlier rate, about " if refused.estimated else ""
    name, how = subject.model or subject.server, _how(found, subject)
    return Fires(
        summary=f"{name} {'has been' if still else 'was'} unavailable for {Unit.SECONDS.show(seconds.value)}{how}: "
        f"{about}{Unit.COUNT.show(refused.value)} requests {'to it ' if still else ''}were refused, "
        f"{Unit.RATIO.show(share)} of those in the window",
        failed_share=share,
        severity=Severity.CRITICAL if still else None,
        suggestion=Suggestion(text=_remedy(found, subject, still=still)),
        began=min((one.since for one in found), default=None),
    )


def _how(found: Sequence[Outage], subject: Subject) -> str:
    last = found[-1] if found else None
    if subject.model is None:
        return _SILENCES.get((last.source, last.state), _SILENT) if last else _SILENT
    if last is None:
        return ""
    if last.reason not in ("", UNLOADED_REASON):
        return f": its load failed ({_short(last.reason)})"
    state = UNAVAILABLE if last.reason == UNLOADED_REASON else last.state
    return _STATES.get(state or last.source, f" (not listed in the {last.source})")


_SILENT = " (it answered no read)"
_SILENCES = {
    (PORT, REFUSING): " (its inference port refused connections, its metrics page answered)",
    (PORT, ""): " (its inference port answered no read, its metrics page did)",
    **{(source, RESTARTED): " (restarted)" for source in (METRICS, READS, STATISTICS)},
}
# What shows that it was not there, in words.
_STATES = {
    INDEX: " (listed without a state: never loaded, or refused)",
    LOADING: " (loading)",
    UNLOADING: " (unloading)",
    UNAVAILABLE: " (unloaded)",
    LOG: " (unloaded)",
}


def _remedy(found: Sequence[Outage], subject: Subject, *, still: bool) -> str:
    if subject.model is None and found and found[-1].source == PORT:
        return _OPEN_AGAIN.format(server=subject.server)
    if subject.model is None:
        return (
            f"find out why {subject.server} stopped (its log, the kernel's, probes, deployments); take a replica out "
            "of the load balancer before it is stopped, and let it back when it is ready"
        )
    if any(one.reason not in ("", UNLOADED_REASON) for one in found):
        return f"repair {subject.model} as the reason says and load it again, or restore the previous version"
    if still:
        return f"load {subject.model} again; find what unloaded it"
    first = "" if found and found[-1].state == LOADING else f"find what unloaded {subject.model}; "
    return f"{first}load new versions beside the old one, or on a replica without requests"


_OPEN_AGAIN = (
    "find what closed the inference port of {server} (its log, --allow-http and --http-port, a network policy, its "
    "file descriptors), and restart it; take it out of the load balancer meanwhile"
)


def _stood_still(ledger: Ledger, subject: Subject) -> Fires:
    """Return that a server stood still: whoever asked it meanwhile waited until it went on, or gave up."""
    found = [one for one in ledger.evidence.outages(subject) if one.state == STOPPED]
    seconds = ledger.read(STOPPED_SECONDS, subject)
    still, moments = bool(found) and not found[-1].over, ledger.evidence.moments(subject.server)
    window = moments[-1] - moments[0] if moments else 0.0
    much = (seconds.value or 0.0) >= MUCH_OF_IT * window
    times = "" if len(found) <= 1 else f" in {len(found)} stretches"
    return Fires(
        summary=f"{subject.server} {'has stood' if still else 'stood'} still for {Unit.SECONDS.show(seconds.value)}"
        f"{times}{_SHOWN_BY.get(found[-1].source, '') if found else ''}: requests "
        + ("wait until it goes on" if still else "waited until it went on"),
        failed_share=ledger.evidence.read(REFUSED_SHARE, subject).value or 0.0,
        severity=Severity.CRITICAL if still or much else Severity.WARNING,
        suggestion=Suggestion(
            text=f"find what stops {subject.server} and let it go on: kill -STOP or a debugger, a frozen cgroup "
            "(cgroup.freeze, docker pause), a paused virtual machine, a CPU quota near zero"
        ),
        began=min((one.since for one in found), default=None),
    )


_SHOWN_BY = {
    HOST: " (its threads were stopped, or used no CPU)",
    READS: " (neither reads nor clients were answered, and those that waited were afterwards)",
}


def _closed_port(ledger: Ledger, subject: Subject) -> Fires:
    found = [one for one in ledger.evidence.outages(subject) if one.state == REFUSING]
    seconds = found[-1].until - found[-1].since if found else 0.0
    return Fires(
        summary=f"{subject.server} has refused connections to its inference port for {Unit.SECONDS.show(seconds)}: its "
        "metrics page answers, and no request was completed",
        failed_share=1.0,
        severity=Severity.CRITICAL,
        suggestion=Suggestion(text=_OPEN_AGAIN.format(server=subject.server)),
        began=next((one.since for one in found[-1:] if one.after is not None), None),
    )


# --- a load failed


def _failed_load(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    reason = _reason(ledger, subject)
    if any(mark in reason for mark in OF_A_MEMBER):
        return Quiet(because="a member of the ensemble is missing instead")
    serves = ledger.need(READY_VERSIONS, subject) > 0
    wanted = ledger.need(MODEL_WANTED, subject) > 0
    because = f": {reason}" if reason else ""
    return Fires(
        summary=f"{subject.model} could not be loaded, {_outcome(serves, wanted)}{because}",
        failed_share=0.0 if serves or not wanted else 1.0,
        severity=Severity.CRITICAL if wanted and not serves else Severity.WARNING,
        suggestion=Suggestion(
            text=f"repair {subject.model} as the reason says and load it again, or restore the previous version; let "
            "deployments wait for READY"
        ),
    )


def _outcome(serves: bool, wanted: bool) -> str:
    if serves:
        return "and an older version goes on serving"
    return "and every request to it is refused" if wanted else "and nothing shows whether clients request it"


def _reason(ledger: Ledger, subject: Subject) -> str:
    reasons = [
        change.reason
        for change in ledger.evidence.changes(subject.server)
        if change.model == subject.model and change.kind is Happened.LOAD_FAILED and change.reason
    ]
    return _short(reasons[-1]) if reasons else ""


def _short(reason: str) -> str:
    return " ".join(reason.split())[:SHOWN_REASON]


_DOWN = {FAILED_VERSIONS: 1, READY_VERSIONS: 0, MODEL_WANTED: 1}
_AWAY = {
    FAILED_VERSIONS: 0,
    UNAVAILABLE_SECONDS: 8,
    REFUSED_REQUESTS: 120,
    REFUSED_SHARE: 0.3,
    STILL_UNAVAILABLE: 0,
    AWAY_WITH_ANOTHER: 0,
}
_CLOSED_PORT = {PORT_REFUSES: 1, REFUSED_REQUESTS: 0, FAILED_VERSIONS: 0}
CASES = (
    CheckCase.fires("when no version serves", _DOWN),
    CheckCase.fires("when a new version failed and an older one serves", {**_DOWN, READY_VERSIONS: 1}),
    CheckCase.fires("when requests arrived while the model was unloaded", _AWAY),
    CheckCase.fires("when the inference port refuses connections", _CLOSED_PORT),
    CheckCase.quiet("when nobody sent requests while the model was unloaded", {**_AWAY, REFUSED_REQUESTS: 0}),
    CheckCase.unknown("without the index", {READY_VERSIONS: 0}),
)
