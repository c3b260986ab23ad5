"""Signs of trouble that no finding explains: they turn "healthy" into "no clear cause"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.anatomy.anatomy import Anatomy, Phase, caller_of, likely_ensembles
from diagnostics.checks.check import Layer
from diagnostics.checks.entries import ENOUGH_FAILURES, FAILED_PART
from diagnostics.checks.execution_hung import MANY, STILL
from diagnostics.checks.gates import HOST_FULL, THREAD_BUSY, holds_back_answers
from diagnostics.checks.gpu_contended_by_other_process import ALWAYS, SHARE
from diagnostics.checks.prefill_interference import may_read_long_prompts
from diagnostics.diagnosis.finding import Cell, Finding, entry_name
from diagnostics.diagnosis.held_up import DISK, io_seconds
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.diagnosis.long_tails import after_pauses, longest_tail
from diagnostics.evidence.capacity import STRETCHED
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE, least_worthwhile
from diagnostics.signals.cache import CACHE_LOOKUPS, CACHE_MISS_SECONDS, never_hits
from diagnostics.signals.callers import FRONTEND_BUSY, HANDLING_SECONDS, OUTSIDE_SECONDS, TRANSFER_SECONDS
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.cpu_steps import CPU_SHORT_SHARE
from diagnostics.signals.device import GPU_AT_LIMIT, HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.disk import IO_PER_LANE, IO_THREADS
from diagnostics.signals.engine import (
    ENGINE_DRAFT_GAIN,
    ENGINE_MAX_UTILIZATION,
    ENGINE_PAUSED,
    ENGINE_WAITING,
    GUARANTEED_NO_EVICT,
)
from diagnostics.signals.engine_iterations import ENGINE_CONTEXT_SHARE, ENGINE_PREFILL_STALL, ENGINE_PROMPT_TOKENS
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.flow import FAILED_REQUESTS, FAILED_SHARE
from diagnostics.signals.gaps import OVERHEAD_SECONDS
from diagnostics.signals.gpu import HELD_BACK_BY_HARDWARE
from diagnostics.signals.host import CPU_WAIT_PER_LANE
from diagnostics.signals.neighbours import FOREIGN_PROCESS, FOREIGN_SHARE, FOREIGN_STAY, OWN_GPU_SECONDS
from diagnostics.signals.outages import (
    AWAY_WITH_ANOTHER,
    CLIENT_FAILURES,
    CLIENT_PATIENCE,
    REFUSED_REQUESTS,
    UNAVAILABLE_SECONDS,
)
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.pace import SLOWED
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.stalls import STANDSTILL_BEFORE_RESTART
from diagnostics.signals.triton import PENDING, REQUESTS
from diagnostics.units import Unit

# An engine that holds back one request on average has reached some limit of its own.
WAITING_IN_ENGINE = 1.0
# A third of the time at its limit is beyond what a burst does, and short of what an average shows.
TIME_AT_LIMIT = 1 / 3
# What no stage accounts for is read as hand-over as long as the stages account for more.
MOST_OF_IT = 0.5
# A stranger that never rests leaves nothing to compare with, only a bound for the mean. The requests that meet it lose
# more than the mean does: a possible tenth is worth a look, where a certain one would not be worth a change.
POSSIBLE_SHARE = 0.1
_MACHINE = frozenset({Layer.ENGINE, Layer.GPU, Layer.HOST})
_OUTSIDE = frozenset({"client-or-transport-bound", "frontend-limited", "external-orchestration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """What is wrong, in words, and the measurement that would show why.

    Attributes:
        text: what is wrong.
        next_measurement: what would show why.
        misses_objective: whether it is a stated objective that is missed, which is wrong whatever the cause.
        cell: the part of a request's time that it is about; None where it is about no one part.
        entry: the entry point whose objective it is about; empty where it is about none.
        figure: latency of the entry point beside its objective; empty where it is about none.

    """

    text: str
    next_measurement: str
    misses_objective: bool = False
    cell: Cell | None = None
    entry: str = ""
    figure: str = ""


def symptoms(
    evidence: Evidence, anatomy: Sequence[Anatomy], left: Mapping[Cell, float], found: Sequence[Finding]
) -> tuple[Symptom, ...]:
    """Return what is wrong and unexplained, in the order of the path of a request."""
    explained_failures = any(finding.impact.share_of_requests_failed > 0 for finding in found)
    known = any(finding.severity.actionable for finding in found)
    gpu_explained = any(finding.check.startswith("gpu-") for finding in found)
    return (
        *_absences(evidence, found),
        *_stuck(evidence),
        *(() if known else _stuck_before(evidence)),
        *_disks(evidence, anatomy),
        *_caches(evidence, anatomy),
        *(() if known else _pauses(evidence, anatomy)),
        *_queues(evidence, anatomy, left),
        *_between(evidence, anatomy, found),
        *_engines(evidence, found),
        *_drafts(evidence, anatomy),
        *_slowed(evidence, anatomy, found),
        *(() if known else (*_beside_others(evidence, anatomy), *_tails(evidence, anatomy))),
        *_prompts(evidence, anatomy, found),
        *(() if explained_failures else (*_failures(evidence), *_client_failures(evidence, anatomy))),
        *_clients(evidence, anatomy, found),
        *_threads(evidence, anatomy),
        *(() if any(finding.layer is Layer.HOST for finding in found) else _host(evidence, anatomy)),
        *(() if gpu_explained else _gpus(evidence)),
        *_strangers(evidence, anatomy, found),
    )


def _absences(evidence: Evidence, found: Sequence[Finding]) -> Iterator[Symptom]:
    """Outages in which requests may have been refused, where nothing shows whether any was."""
    explained = {(one.subject.server, one.subject.model) for one in found if one.check == OUTAGE}
    for on in evidence.subjects(Scope.LISTED):
        refused, away = evidence.read(REFUSED_REQUESTS, on), evidence.read(UNAVAILABLE_SECONDS, on)
        possible = (refused.high or 0.0) >= 1 and not evidence.read(AWAY_WITH_ANOTHER, on).value
        if possible and (on.server, on.model) not in explained:
            yield Symptom(
                text=f"{on.model or on.server} was unavailable for up to {Unit.SECONDS.show(away.high)}; requests may "
                "have been refused",
                next_measurement="look at the errors that clients got then, and at the server's log; read the index "
                "more often",
            )


def _stuck(evidence: Evidence) -> Iterator[Symptom]:
    """Counters move on completion: where none completes, only the pending gauge separates a stall from no traffic."""
    for model in _models(evidence):
        waiting = evidence.read(PENDING, model)
        if evidence.read(REQUESTS, model).value == 0 and waiting.low is not None and waiting.low >= 1:
            yield Symptom(
                text=f"{Unit.COUNT.show(waiting.value)} requests wait for {model.model} and none completed",
                next_measurement="read longer than one execution takes; then look at its log and at what it waits for",
            )


def _stuck_before(evidence: Evidence) -> Iterator[Symptom]:
    """Stalls that a restart ended: what waited was lost, and what came after it looks well."""
    for model in _models(evidence):
        still = evidence.read(STANDSTILL_BEFORE_RESTART, model)
        usual = evidence.read(EXECUTION_SECONDS, model).value or 0.0
        if (still.value or 0.0) >= max(STILL.value, MANY.value * usual):
            yield Symptom(
                text=f"{Unit.COUNT.show(still.events)} requests waited for {model.model}, of which none completed for "
                f"{Unit.SECONDS.show(still.value)}; then its counters began anew",
                next_measurement=f"read the server's log from before {model.server} was started again, and find what "
                f"{model.model} waited for",
            )


def _disks(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Yield waits for I/O that are worth a change to requests; no check states a disk.

    What only a load reads does not last: the least that is certain counts.
    """
    for item in anatomy:
        for stage in item.stages:
            part = evidence.read(IO_PER_LANE, Subject(server=item.server, model=stage.model))
            waits = (part.value or 0.0) >= DISK.value and (part.low or 0.0) >= WORTHWHILE_SHARE
            if waits and item.requests >= ENOUGH_EVENTS and stage.seconds >= least_worthwhile(item.mean_seconds):
                yield Symptom(
                    text=f"executions of {stage.model} wait for I/O in {Unit.RATIO.show(part.value)} of their time: "
                    f"{Unit.SECONDS.show(stage.seconds)} of each request pass there, its queue included",
                    next_measurement=IO_PER_LANE.fix,
                )
    for server in sorted({item.server for item in anatomy}):
        threads, each = evidence.read(IO_THREADS, Subject(server=server)), io_seconds(evidence, server)
        least = each * (threads.low or 0.0) / (threads.value or 1.0)
        slow = (one for one in anatomy if one.server == server and one.requests >= ENOUGH_EVENTS)
        if not threads.estimated and any(least >= least_worthwhile(one.mean_seconds) for one in slow):
            yield Symptom(
                text=f"{threads.value or 0.0:.1f} threads of {server} wait for I/O on average, "
                f"{Unit.SECONDS.show(each)} of each request",
                next_measurement=IO_THREADS.fix,
            )


def _caches(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Response caches that are asked for each request and never answer one, where that takes what is worth a change."""
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            each = evidence.read(CACHE_MISS_SECONDS, on).value or 0.0
            if never_hits(evidence.read, on) and each >= least_worthwhile(item.mean_seconds):
                yield Symptom(
                    text=f"the response cache of {stage.model} answered none of "
                    f"{Unit.COUNT.show(evidence.read(CACHE_LOOKUPS, on).value)} requests, and takes "
                    f"{Unit.SECONDS.show(each)} of each",
                    next_measurement="compare the inputs of two requests that should be equal: a time, an id or a seed "
                    f"makes each one new; if none is equal, set response_cache.enable of {stage.model} to false",
                )


def _pauses(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Requests that are slow after each pause: those that come meanwhile wait for them."""
    for one in after_pauses(evidence, anatomy):
        yield Symptom(text=one.text, next_measurement=one.next_measurement)


def _queues(evidence: Evidence, anatomy: Sequence[Anatomy], left: Mapping[Cell, float]) -> Iterator[Symptom]:
    perhaps = likely_ensembles(anatomy, evidence)
    for item in anatomy:
        for stage in item.stages:
            cell = (item.server, entry_name(item.ensemble, stage.model), stage.model, Phase.QUEUE)
            seconds = min(left.get(cell, 0.0), stage.most_seconds, item.most_queued_seconds)
            if seconds >= least_worthwhile(item.mean_seconds):
                yield Symptom(
                    text=f"requests wait {Unit.SECONDS.show(seconds)} for {stage.model}, "
                    f"{_of_requests(item, seconds, perhaps)}",
                    next_measurement="run diag explain again with --why-not single-instance-serialization",
                    cell=cell,
                )


def _of_requests(item: Anatomy, seconds: float, perhaps: Sequence[Anatomy]) -> str:
    """Return which part of whose request time some seconds are: of the entry point's, also of one that is likely."""
    caller = None if item.ensemble else caller_of(item, perhaps)
    mean = max((caller or item).mean_seconds, seconds)
    share, whole = Unit.RATIO.show(seconds / mean), Unit.SECONDS.show(mean)
    if caller is not None:
        return f"{share} of the {whole} of {caller.stages[0].model}, which seems to call it"
    return f"{share} of the {whole} of {item.ensemble}" if item.ensemble else f"{share} of their {whole}"


def _between(evidence: Evidence, anatomy: Sequence[Anatomy], found: Sequence[Finding]) -> Iterator[Symptom]:
    """Time of an ensemble that its stages deny, where its engine is seen at work and traces do not show the rest.

    Without such an engine it may be a Python stage's own, which answers from a thread that no counter shows.
    """
    explained = {(finding.subject.server, finding.subject.ensemble) for finding in found if finding.severity.actionable}
    for item in anatomy:
        on, seconds = Subject(server=item.server, ensemble=item.ensemble), item.unattributed_seconds
        long = seconds >= WORTHWHILE_SECONDS and seconds >= MOST_OF_IT * item.mean_seconds
        if item.ensemble is None or not long or (item.server, item.ensemble) in explained:
            continue
        members = (Subject(server=item.server, model=stage.model) for stage in item.stages)
        seen = any(evidence.is_engine(member) and evidence.shows_engine_time(member) for member in members)
        if seen and evidence.read(OVERHEAD_SECONDS, on).value is None:
            yield Symptom(
                text=f"requests of {item.ensemble} spend {Unit.SECONDS.show(seconds)} of "
                f"{Unit.SECONDS.show(item.mean_seconds)} where no stage says that it works",
                next_measurement="trace some requests: their spans show between which stages the time passes",
            )


def _engines(evidence: Evidence, found: Sequence[Finding]) -> Iterator[Symptom]:
    explained = {
        finding.subject.model for finding in found if finding.layer is Layer.ENGINE and finding.severity.actionable
    }
    for model in _models(evidence):
        if model.model in explained:
            continue
        waiting = evidence.read(ENGINE_WAITING, model).value
        if waiting is not None and waiting >= WAITING_IN_ENGINE:
            yield Symptom(
                text=f"{Unit.COUNT.show(waiting)} requests wait inside the engine of {model.model} on average",
                next_measurement=kind.compare_limits
                if (kind := evidence.server_kind(model))
                else "compare its scheduled requests with its slots, and its KV blocks with what requests need",
            )
        elif _paused_against_policy(evidence, model):
            yield Symptom(
                text=f"the engine of {model.model} pauses {Unit.COUNT.show(evidence.read(ENGINE_PAUSED, model).value)} "
                f"requests on average, and its configured policy {GUARANTEED_NO_EVICT} pauses none",
                next_measurement="read its effective policy in the server's log: batch_scheduler_policy may be unread",
            )


def _drafts(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Speculative decoding whose drafts certainly take more than they save, by what is worth a change."""
    for item in anatomy:
        for stage in item.stages:
            gain = evidence.read(ENGINE_DRAFT_GAIN, Subject(server=item.server, model=stage.model))
            inside = max(stage.cells.get(Phase.ENGINE, 0.0), stage.cells.get(Phase.COMPUTE, 0.0))
            seconds = inside * (1.0 - (1.0 if gain.high is None else gain.high))
            if seconds >= least_worthwhile(item.mean_seconds):
                yield Symptom(
                    text=f"drafts of the engine of {stage.model} take more than they save, "
                    f"{Unit.SECONDS.show(seconds)} of each request: {gain.value or 0.0:.2f} tokens come in the time of "
                    "one iteration without them",
                    next_measurement=f"turn speculative decoding of {stage.model} off on one replica, and compare both "
                    "with diag diff; or give it a draft model of the same family, or fewer draft tokens",
                )


def _slowed(evidence: Evidence, anatomy: Sequence[Anatomy], found: Sequence[Finding]) -> Iterator[Symptom]:
    """Iterations or executions that were longer for a while, where no finding may be why."""
    actionable = [finding for finding in found if finding.severity.actionable]
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            slowed, engine = evidence.read(SLOWED, on), evidence.is_engine(on)
            known = actionable if not engine else [one for one in actionable if one.layer in _MACHINE]
            if known or slowed.value is None or slowed.span is None:
                continue
            inside = max(stage.cells.get(Phase.ENGINE, 0.0), stage.cells.get(Phase.COMPUTE, 0.0))
            seconds = inside * (1.0 - 1.0 / slowed.value)
            if seconds >= least_worthwhile(item.mean_seconds):
                what, more = (
                    ("iterations of the engine of ", "requests or prompts")
                    if engine
                    else ("executions of ", "requests")
                )
                yield Symptom(
                    text=f"{what}{stage.model} took {slowed.value:.1f} times as long for "
                    f"{Unit.SECONDS.show(slowed.span)}, with no more {more} than in the rest of it",
                    next_measurement=_why_slower(evidence, on),
                )


def _tails(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Requests that take far longer than most: whoever meets one does not see the mean."""
    one = longest_tail(evidence, anatomy)
    if one is not None:
        yield Symptom(text=one.text, next_measurement=one.next_measurement)


def _beside_others(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Executions that take longer the more of them run at once, though hardly any request waits for an instance."""
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            stretch = evidence.read(OVERLAP_STRETCH, on)
            if stretch.low is None or stretch.low < STRETCHED.value or evidence.is_engine(on):
                continue
            seconds = stage.cells.get(Phase.COMPUTE, 0.0) * (1.0 - 1.0 / (stretch.value or 1.0))
            if seconds >= least_worthwhile(item.mean_seconds):
                yield Symptom(
                    text=f"executions of {stage.model} take {stretch.value:.2g} times as long next to others as alone: "
                    "they share a processor, a lock or a thread pool",
                    next_measurement=_what_is_shared(evidence, on),
                )


def _what_is_shared(evidence: Evidence, on: Subject) -> str:
    """Return the measurement not yet made that separates processors from a lock."""
    if evidence.read(CPU_WAIT_PER_LANE, on).value is None:
        return (
            "record on the server's machine: its processes show whether they wait for a processor; pools of threads "
            "that spin take more than cores ÷ instances (OMP_NUM_THREADS, OMP_WAIT_POLICY=passive)"
        )
    return f"run one instance of {on.model} alone under load: if an execution is shorter then, they share a lock"


def _why_slower(evidence: Evidence, on: Subject) -> str:
    """Return the measurement not yet made that shows why a model executes more slowly for a while."""
    if evidence.read(ON_GPU, on).value != 0 and evidence.read(HELD_BACK_BY_HARDWARE, on).value is None:
        return "record with NVML on the GPU's machine: another process on the card, or a lower clock, shows there"
    if evidence.read(CPU_SHORT_SHARE, on).value is None:
        return "record on the server's machine: a quota, stolen or contended processors show there"
    return f"compare inputs of requests to {on.model} then and before, and what it calls: trace some requests"


def _paused_against_policy(evidence: Evidence, on: Subject) -> bool:
    paused, policy = evidence.read(ENGINE_PAUSED, on).value, evidence.read(ENGINE_MAX_UTILIZATION, on).value
    return paused is not None and paused >= WAITING_IN_ENGINE and policy == 0


def _prompts(evidence: Evidence, anatomy: Sequence[Anatomy], found: Sequence[Finding]) -> Iterator[Symptom]:
    """Long prompts that an engine reads most of the time, where nothing times what they do to those that run."""
    explained = {
        finding.subject.model for finding in found if finding.layer is Layer.ENGINE and finding.severity.actionable
    }
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            seconds = max(stage.cells.get(Phase.ENGINE, 0.0), stage.cells.get(Phase.COMPUTE, 0.0))
            most = seconds * _most_stalled(evidence, on) if evidence.is_engine(on) else 0.0
            long = most >= least_worthwhile(item.mean_seconds)
            if long and stage.model not in explained:
                yield Symptom(
                    text=f"the engine of {stage.model} reads prompts of "
                    f"{Unit.COUNT.show(evidence.read(ENGINE_PROMPT_TOKENS, on).value)} tokens in "
                    f"{Unit.RATIO.show(evidence.read(ENGINE_CONTEXT_SHARE, on).value)} of its iterations: up to "
                    f"{Unit.SECONDS.show(most)} of each request may be other requests' prompts",
                    next_measurement="time its iterations (trtllm-serve: enable_iter_perf_stats), or read for longer; "
                    "compare the time per output token at half the load",
                )


def _most_stalled(evidence: Evidence, on: Subject) -> float:
    """Return the largest share of an engine's time that long prompts of others may take; 0 where that is timed."""
    stall = evidence.read(ENGINE_PREFILL_STALL, on)
    timed = stall.value is not None and not stall.estimated
    if timed or not may_read_long_prompts(evidence, on):
        return 0.0
    return 1.0 if stall.high is None else stall.high


def _failures(evidence: Evidence) -> Iterator[Symptom]:
    for subject in (*evidence.subjects(Scope.ENSEMBLE), *_models(evidence)):
        failed, share = (
            evidence.read(FAILED_REQUESTS, subject).value,
            evidence.read(FAILED_SHARE, subject).value,
        )
        if failed is None or share is None:
            continue
        if failed >= ENOUGH_FAILURES.value and share >= FAILED_PART.value:
            yield Symptom(
                text=f"{Unit.RATIO.show(share)} of the requests of {subject.ensemble or subject.model} fail",
                next_measurement="read the server's log and the error text that clients get",
            )


def _client_failures(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Errors that only clients see: Triton counts none of the requests that it does not accept."""
    names = {(on.server, on.model or on.ensemble) for s in (Scope.ENTRY, Scope.LISTED) for on in evidence.subjects(s)}
    mean = {(one.server, entry_name(one.ensemble, one.stages[0].model)): one.mean_seconds for one in anatomy}
    for server, name in sorted((server, name) for server, name in names if name):
        on = Subject(server=server, model=name)
        failed, patience = evidence.read(CLIENT_FAILURES, on), evidence.read(CLIENT_PATIENCE, on).value
        share = (failed.value or 0.0) / (failed.events or 1.0)
        if (failed.value or 0.0) < ENOUGH_FAILURES.value or share < FAILED_PART.value:
            continue
        text = f"{Unit.RATIO.show(share)} of the requests that clients sent to {name} failed, and no counter shows it"
        following = "read the error text that clients got, and the log of what is between them and " + server
        if patience is not None and patience <= mean.get((server, name), 0.0):
            show = Unit.SECONDS.show
            text += f": they give up after {show(patience)}, and a request takes {show(mean[server, name])} on average"
            following = (
                "raise the clients' timeout above what requests take, and look whether they retry: what they gave up "
                "is executed nevertheless"
            )
        yield Symptom(text=text, next_measurement=following)


def _clients(evidence: Evidence, anatomy: Sequence[Anatomy], found: Sequence[Finding]) -> Iterator[Symptom]:
    """Time that only clients see: the counters of a server whose frontend holds requests back are clean."""
    explained = {
        (finding.subject.server, finding.subject.ensemble or finding.subject.model)
        for finding in found
        if finding.check in _OUTSIDE
    }
    for item in anatomy:
        name = item.ensemble or item.stages[0].model
        on = Subject(server=item.server, model=name)
        outside = evidence.read(OUTSIDE_SECONDS, on)
        around = evidence.read(HANDLING_SECONDS, on) + evidence.read(TRANSFER_SECONDS, on)
        seconds = (around if outside.value is None else outside).value or 0.0
        long = seconds >= least_worthwhile(seconds + item.mean_seconds)
        if long and (item.server, name) not in explained:
            traced = (
                f"traced requests of {name} are {Unit.SECONDS.show(seconds)} longer in the frontend than in its stages"
            )
            waited = f"clients of {name} wait {Unit.SECONDS.show(seconds)} longer than its stages take"
            yield Symptom(
                text=traced if outside.value is None else waited, next_measurement=_separating(evidence, on, item)
            )


def _separating(evidence: Evidence, on: Subject, item: Anatomy) -> str:
    """Return the measurements not yet made that separate a server's frontend from the way to it, and from earlier
    answers.

    An answer that waits for an earlier one does so in the server, in no counter and in no span of the frontend.
    """
    wanted = ["compare a client on the server's machine"]
    held = [stage.model for stage in item.stages if holds_back_answers(evidence, replace(on, model=stage.model))]
    if held:
        wanted.insert(
            0,
            f"set preserve_ordering of {held[0]} to false, if no client needs the order: its answers wait for those of "
            "earlier requests",
        )
    if evidence.read(FRONTEND_BUSY, Subject(server=on.server)).value is None:
        wanted.insert(0, "record on the server's machine: its threads show whether the frontend is short of them")
    if evidence.read(HANDLING_SECONDS, on).value is None:
        wanted.insert(0, "trace some requests: their frontend spans tell the server's frontend from the way to it")
    return "; ".join(wanted)


def _threads(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Busy threads of a frontend where nobody's time outside the models is seen."""
    for server in sorted({item.server for item in anatomy}):
        busy = evidence.read(FRONTEND_BUSY, Subject(server=server)).value or 0.0
        names = [item.ensemble or item.stages[0].model for item in anatomy if item.server == server]
        seen = [
            evidence.read(s, Subject(server=server, model=n))
            for s in (OUTSIDE_SECONDS, HANDLING_SECONDS)
            for n in names
        ]
        if busy >= THREAD_BUSY.value and all(reading.value is None for reading in seen):
            yield Symptom(
                text=f"a thread of {server} that executes no model is busy {Unit.RATIO.show(busy)} of the time",
                next_measurement="note what clients wait, or trace some requests: they may wait for that thread",
            )


def _host(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Symptom]:
    """Name processors that are full where requests may wait for them; whether a stage does is for the checks."""
    called = {item.server for item in anatomy if item.requests}
    for server in evidence.subjects(Scope.SERVER):
        if server.server not in called:
            continue
        busy = evidence.read(HOST_CPU_BUSY, server)
        if busy.value is not None and busy.value >= HOST_FULL.value:
            yield Symptom(
                text=f"the host of {server.server} uses {Unit.RATIO.show(busy.value)} of its processors",
                next_measurement="look at which processes use the processors, and at the server's cgroup limits",
            )


def _gpus(evidence: Evidence) -> Iterator[Symptom]:
    for server in evidence.subjects(Scope.SERVER):
        at_limit = evidence.read(GPU_AT_LIMIT, server).value
        if at_limit is not None and at_limit >= TIME_AT_LIMIT:
            yield Symptom(
                text=f"a GPU is at its limit {Unit.RATIO.show(at_limit)} of the time",
                next_measurement="look at which processes use the GPU, at its power cap and its clocks",
            )


def _strangers(evidence: Evidence, anatomy: Sequence[Anatomy], found: Sequence[Finding]) -> Iterator[Symptom]:
    """Processes that use a card all the time, where what they cost can be bounded and not be measured."""
    if any(finding.check == "gpu-contended-by-other-process" for finding in found):
        return
    for card in evidence.subjects(Scope.GPU):
        share, stay = evidence.read(FOREIGN_SHARE, card).value or 0.0, evidence.read(FOREIGN_STAY, card).value or 0.0
        if share < SHARE.value or stay < ALWAYS.value:
            continue
        served = [item for item in anatomy if item.server == card.server]
        for item in served:
            seconds = _not_own(evidence, card, served, item) + share * _on_card(evidence, item, Phase.ENGINE)
            if seconds >= WORTHWHILE_SECONDS and seconds >= POSSIBLE_SHARE * item.mean_seconds:
                yield Symptom(
                    text=f"process {evidence.read(FOREIGN_PROCESS, card).value or 0:.0f}, which is not Triton's, works "
                    f"on {card.gpu_name} all the time, {Unit.RATIO.show(share)} of its SM time: it may cost up to "
                    f"{Unit.SECONDS.show(seconds)} of each request of {item.ensemble or item.stages[0].model}",
                    next_measurement="stop that process or move it off the card for a minute, or read again when it "
                    "rests: the difference is its cost",
                )


def _not_own(evidence: Evidence, card: Subject, served: Sequence[Anatomy], item: Anatomy) -> float:
    """Return the seconds per request on the card's stages in which no kernel of the server ran.

    No more than that is lost to others. The whole queue counts: it may be gone when executions are shorter. 0 when the
    server's own use of the card is not known.
    """
    own = evidence.read(OWN_GPU_SECONDS, card).value
    executing = sum(_on_card(evidence, one, Phase.COMPUTE) * one.requests for one in served)
    if own is None or executing <= 0:
        return 0.0
    rest = max(1.0 - own / executing, 0.0)
    return _on_card(evidence, item, Phase.COMPUTE) * rest + _on_card(evidence, item, Phase.QUEUE)


def _on_card(evidence: Evidence, item: Anatomy, phase: Phase) -> float:
    on = {stage.model: Subject(server=item.server, model=stage.model) for stage in item.stages}
    return sum(
        stage.cells.get(phase, 0.0) for stage in item.stages if evidence.read(ON_GPU, on[stage.model]).value != 0
    )


def _models(evidence: Evidence) -> Sequence[Subject]:
    return evidence.subjects(Scope.MODEL)
