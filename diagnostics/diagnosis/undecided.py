"""What a window lacks without which nothing in it can be called healthy: counters, reads, an engine's time, a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from diagnostics import names
from diagnostics.anatomy.anatomy import Anatomy, Phase, likely_ensembles, longest_call
from diagnostics.checks.batching_without_gain import BATCHES_FORM
from diagnostics.checks.check import Layer, Unknown
from diagnostics.diagnosis.finding import Cell, entry_name
from diagnostics.diagnosis.notes import DISORDERS
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import least_worthwhile
from diagnostics.signals.absences import ABSENT_THROUGHOUT
from diagnostics.signals.availability import FAILED_VERSIONS
from diagnostics.signals.callers import HANDLING_SECONDS, OUTSIDE_SECONDS
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.engine_samples import LONGEST_HANDOVER, MOST_BUSY, generates
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS, IMPLAUSIBLE_STEPS
from diagnostics.signals.neighbours import FOREIGN_EXCESS_REQUEST
from diagnostics.signals.orchestration import MODELS_IN_STEP, ORCHESTRATED_SECONDS
from diagnostics.signals.outages import CLIENT_FAILURES
from diagnostics.signals.settings import CONFIG_FIX, INSTANCES
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.traces import TRACE_FIX
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS, SUMMARIZED_REQUESTS
from diagnostics.units import Unit
from diagnostics.window.view import METRICS
from diagnostics.window.view import Counter as Measured

# A steady level is separated from a stall or a step beside it by a quartile of four intervals: five reads.
FEWEST_READS = 5


class Unread(NamedTuple):
    """What is missing, and the measurement to take next; the latter may be empty."""

    text: str
    next_measurement: str = ""


def core_missing(evidence: Evidence) -> Unread | None:
    """Return what is missing of the signals without which nothing can be called healthy; None when nothing is."""
    models = evidence.subjects(Scope.MODEL)
    if not models:
        found = (_lacks_counters(evidence, on) for on in evidence.subjects(Scope.SERVER))
        return next(filter(None, found), None) or Unread("no model's counters could be read")
    readings = [evidence.read(REQUESTS, model) for model in models]
    for model, reading in zip(models, readings, strict=True):
        if reading.value is None and (evidence.read(IMPLAUSIBLE_STEPS, model).value or 0.0) > 0:
            return Unread(
                f"counters of {model.model} are impossible at every read: they show increases that no server makes"
            )
    if all(reading.value is None for reading in readings):
        lacking = _lacks_counters(evidence, models[0]) if readings[0].missing is Missing.DISABLED else None
        return lacking or Unread(_uncounted({reading.missing for reading in readings}))
    for model, reading in zip(models, readings, strict=True):
        if reading.value == 0 and (evidence.read(SUMMARIZED_REQUESTS, model).value or 0.0) > 0:
            return Unread(f"counters of {model.model} stand still while its summaries count: counter_latencies is off")
        if not reading.value or reading.value < ENOUGH_EVENTS:
            continue
        for signal in (QUEUE_SECONDS, REQUEST_SECONDS):
            if evidence.read(signal, model).missing not in (None, Missing.TOO_FEW_EVENTS):
                return _lacks_waits(evidence, model) or Unread(f"{signal.name} of {model.model} could not be read")
    return None


def _lacks_counters(evidence: Evidence, on: Subject) -> Unread | None:
    """Return that no requests were counted, in the words of the server; None of a Triton."""
    kind = evidence.server_kind(on)
    if kind is None:
        return None
    lacking = f"the page of {kind.name} has no {kind.counted_by}"
    return Unread(f"no request was counted: {lacking}", kind.counts or f"keep {kind.counted_by} when pages are scraped")


def _lacks_waits(evidence: Evidence, on: Subject) -> Unread | None:
    """Return that nothing shows how long requests wait, in the words of the server; None of a Triton."""
    kind = evidence.server_kind(on)
    if kind is None:
        return None
    counted = (name for name, counter in kind.requests.items() if counter == Measured.QUEUE_SECONDS)
    waits = next(counted, "").removesuffix("_sum") or kind.family("waiting")
    return Unread(
        f"how long requests for {on.model} wait was not read: the page of {kind.name} has no {waits}",
        f"keep {waits} when pages are scraped",
    )


def _uncounted(reasons: Set[Missing | None]) -> str:
    if reasons == {Missing.TOO_FEW_EVENTS}:
        return "no counter was read twice"
    return next(
        (reported for reason, reported in DISORDERS.items() if reason in reasons), "request counters are not exported"
    )


def left_out(evidence: Evidence) -> Unread | None:
    """Return the models with requests that no check looked at, as there are too many; None without such."""
    covered = evidence.coverage()
    if not covered.hides_requests:
        return None
    return Unread(f"not all models were judged: {covered} are left out, as there are too many", FEWER)


FEWER = "explain fewer servers at a time: name them one by one"


def unread(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Unread | None:
    """Return what was not read, and could hold a fault that nothing else shows; None when there is no such thing."""
    return (
        _unseen_inside(evidence, anatomy)
        or _failures_uncounted(evidence)
        or _read_too_rarely(evidence, anatomy)
        or _perhaps_by_hand(evidence, anatomy)
        or _perhaps_decoupled(evidence, anatomy)
    )


def silent_port(evidence: Evidence) -> Unread | None:
    """Return a server whose inference port answered no read at all, and where nothing was completed meanwhile."""
    for on in evidence.subjects(Scope.LISTED):
        if on.model is None and evidence.read(ABSENT_THROUGHOUT, on).value:
            return Unread(
                f"the inference port of {on.server} answered no read, and no request was completed meanwhile: it may "
                "refuse all requests",
                "send it a request as a client does; look at the errors that clients get, and at the server's log",
            )
    return None


def absent_model(evidence: Evidence, among: Container[str] | None = None) -> Unread | None:
    """Return a model that was never there while the window was read, where nothing shows whether anybody asks for it.

    Triton counts none of the requests that it refuses, so the counters of a server look alike with and without them.

    Args:
        evidence: what was read.
        among: the models that matter; None for all.

    """
    for on in evidence.subjects(Scope.LISTED):
        if on.model is None or (among is not None and on.model not in among):
            continue
        if evidence.read(ABSENT_THROUGHOUT, on).value:
            return Unread(
                f"no version of {on.model} was ready at any read of {on.server}: the server refuses requests to it "
                "and counts none of them",
                f"look at the errors that clients of {on.model} get; load it if it is to serve",
            )
    return None


def refusals_unseen(evidence: Evidence) -> Unread | None:
    """Return that refusals go unseen where only metrics pages were read; None where something else was, too.

    Triton refuses requests to a model that is not loaded. No counter shows them, and no page lists the model. Instances
    are known from configurations, or from a service that watches the server: it knows which models are loaded.
    """
    for model in evidence.subjects(Scope.MODEL):
        triton = evidence.read(BATCH_SIZE, model).value is not None
        paged = evidence.read(REQUESTS, model).source == METRICS and evidence.read(INSTANCES, model).value is None
        unlisted = evidence.read(FAILED_VERSIONS, model).missing is Missing.NOT_EXPORTED
        if triton and paged and unlisted and not _clients_see(evidence):
            return Unread(
                f"only metrics pages of {model.server} were read: requests that it refuses, as for a model that is not "
                "loaded, are not in them",
                FAILED_VERSIONS.fix,
            )
    return None


def _clients_see(evidence: Evidence) -> bool:
    """Return whether clients recorded what became of their requests."""
    return any(evidence.read(CLIENT_FAILURES, model).value is not None for model in evidence.subjects(Scope.MODEL))


def _unseen_inside(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Unread | None:
    return next(filter(None, (unseen_time(evidence, item) for item in anatomy if item.requests >= ENOUGH_EVENTS)), None)


def unseen_time(evidence: Evidence, item: Anatomy) -> Unread | None:
    """Return why the time of an entry's requests is not that of its row; None where it is.

    A row that ends when its request is handed to an engine or a thread shows nothing of the request's time.
    """
    stage = item.stages[0]
    on = Subject(server=item.server, model=stage.model)
    if item.ensemble is not None or Phase.ENGINE in stage.cells:
        return None
    if evidence.is_engine(on) and not evidence.shows_engine_time(on):
        return Unread(
            f"the row of {stage.model} ends where a request is handed to its engine: its time there is unseen"
        )
    if evidence.answers_apart(on) and not _clients_see_all(evidence, on):
        return Unread(
            f"the row of {stage.model} ends where a request is handed to a thread of its own: its time there is unseen",
            TRACE_FIX,
        )
    config = evidence.config(on)
    if config is None or not config.decoupled or _works_in_its_row(evidence, on) or _clients_see_all(evidence, on):
        return None
    return Unread(
        f"{stage.model} is decoupled and may answer after its row ended: how long its requests take was not read",
        TRACE_FIX,
    )


def _perhaps_decoupled(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Unread | None:
    """Without its configuration, a model of short executions may be decoupled. An ensemble executes nothing."""
    likely = likely_ensembles(anatomy, evidence)
    for item in anatomy:
        stage = item.stages[0]
        on = Subject(server=item.server, model=stage.model)
        counted = evidence.read(EXECUTION_SECONDS, on).value is not None and item.requests >= ENOUGH_EVENTS
        of_ensemble = item.ensemble is not None or longest_call(item, likely) > 0
        if of_ensemble or evidence.config(on) is not None or not counted:
            continue
        if not _works_in_its_row(evidence, on) and not _clients_see_all(evidence, on):
            return Unread(
                f"{stage.model} may be decoupled and answer after its row ended: its configuration was not read",
                CONFIG_FIX,
            )
    return None


def _works_in_its_row(evidence: Evidence, on: Subject) -> bool:
    """Return whether a model is seen at work in its own row: it does more than to hand requests over."""
    busy = (evidence.read(INSTANCE_BUSY_SHARE, on).value or 0.0) >= MOST_BUSY
    return busy or (evidence.read(EXECUTION_SECONDS, on).value or 0.0) >= LONGEST_HANDOVER


def _clients_see_all(evidence: Evidence, on: Subject) -> bool:
    """Return whether clients record that their requests take no more than the row shows, as far as matters."""
    whole, row = evidence.read(ORCHESTRATED_SECONDS, on).value, evidence.read(REQUEST_SECONDS, on).value
    if whole is None or row is None:
        return False
    return whole - row < least_worthwhile(whole)


def _failures_uncounted(evidence: Evidence) -> Unread | None:
    """Requests that failed are in no other counter. An engine's own server counts none, and executions neither."""
    for model in evidence.subjects(Scope.MODEL):
        triton = evidence.read(BATCH_SIZE, model).value is not None
        counted = evidence.read(FAILED_REQUESTS, model).missing in (None, Missing.IDLE, Missing.TOO_FEW_EVENTS)
        if triton and not counted and (evidence.read(REQUESTS, model).value or 0.0) >= ENOUGH_EVENTS:
            return Unread(
                f"failures of {model.model} are not counted: any number of requests may fail",
                f"keep {names.REQUEST_FAILURE} when pages are scraped, or let the statistics be read",
            )
    return None


def _read_too_rarely(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Unread | None:
    """Few reads hold means alone: a stall, a slow start or a step between them is spread over all requests."""
    for server in sorted({item.server for item in anatomy if item.requests >= ENOUGH_EVENTS}):
        reads = len(evidence.moments(server))
        if 0 < reads < FEWEST_READS:
            return Unread(
                f"counters of {server} were read {reads} times: that shows means, and no stall or change between them",
                f"read longer or more often: {FEWEST_READS} reads tell a change from what is usual",
            )
    return None


def _perhaps_by_hand(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Unread | None:
    """Models that are called in step beside an idle one that may be their ensemble: who calls them is not known."""
    for server in sorted({item.server for item in anatomy}):
        perhaps = likely_ensembles(anatomy, evidence)
        alone = [
            item.stages[0].model
            for item in anatomy
            if item.server == server and item.ensemble is None and not longest_call(item, perhaps)
        ]
        if not _idles_unread(evidence, server):
            continue
        in_step = [model for model in alone if _in_step(evidence, Subject(server=server, model=model))]
        if len(in_step) >= 2:
            return Unread(
                f"{', '.join(in_step)} are called in step: an ensemble that idles may be done by hand, and its "
                "configuration was not read",
                CONFIG_FIX,
            )
    return None


def _in_step(evidence: Evidence, on: Subject) -> bool:
    return (evidence.read(MODELS_IN_STEP, on).value or 0.0) >= 1


def _idles_unread(evidence: Evidence, server: str) -> bool:
    """Return whether a model without requests is there whose configuration was not read: it may be an ensemble."""
    models = [one for one in evidence.subjects(Scope.MODEL) if one.server == server and evidence.config(one) is None]
    return any(evidence.read(REQUESTS, one).value == 0 for one in models)


# A check's `reach` leaves out what is bounded otherwise: long prompts and time outside of the server are symptoms, time
# between stages is looked at below. Clocks that are held back and neighbours on a card are blind spots alone: without
# NVML no deployment on a GPU could be called healthy.
_INSIDE = frozenset({Phase.COMPUTE, Phase.ENGINE, Phase.QUEUE})
# Checks that reach these phases only once so much is seen that no more than this signal is left to know: a process of
# others at work on a full card, of which nothing shows what it costs.
REACH_ONCE_SEEN: Mapping[str, tuple[str, frozenset[Phase]]] = {
    "gpu-contended-by-other-process": (FOREIGN_EXCESS_REQUEST.name, _INSIDE),
}
# Memory is copied with 8 GB/s or more by one thread; a network of 10 Gbit/s brings 1.25 GB/s.
WAY_PER_COPY = 6.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Something undecided, the part of a request that it may cost, and the measurement that decides it.

    `cells` are of the entry in which it may cost most, `share` is of that entry's mean time, 0 to 1.
    """

    text: str
    next_measurement: str
    cells: Mapping[Cell, float]
    mean_seconds: float

    @property
    def seconds(self) -> float:
        """The seconds of a request that it may cost at most."""
        return sum(self.cells.values())

    @property
    def share(self) -> float:
        """That as a share of the request's mean time."""
        return self.seconds / self.mean_seconds if self.mean_seconds > 0 else 0.0

    @property
    def matters(self) -> bool:
        """Whether a change for it may be worth making."""
        return self.seconds >= least_worthwhile(self.mean_seconds)


def undecided(evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy]) -> tuple[Open, ...]:
    """Return what may still hide a fault that is worth a change, the one with most of a request's time first."""
    found = (
        *_unaccounted(evidence, anatomy),
        *_on_the_way(evidence, anatomy),
        *_inside_engines(evidence, anatomy),
        *_checks(evidence, results, anatomy),
    )
    return tuple(sorted((one for one in found if one.matters), key=lambda one: -one.share))


def most_telling(left: Sequence[Open], about: Cell | None = None) -> Open | None:
    """Return what to decide first: by the measurement that decides most of a request's time, at most of the checks.

    Several checks may lack the same measurement. A cell that some of them may claim counts once, and with as large a
    part as any of them may claim of it. Where two measurements decide as much, the one that more checks lack comes
    first: it leaves fewer of them.

    Args:
        left: what is undecided, the one with the largest share first.
        about: only what may be in this cell matters; None for all.

    Returns:
        The one with the largest share of those that the measurement decides; None where nothing is undecided.

    """
    waiting = [one for one in left if one.next_measurement and (about is None or about in one.cells)]
    parts: dict[str, dict[Cell, float]] = {}
    for one in waiting:
        mine = parts.setdefault(one.next_measurement, {})
        for cell, seconds in one.cells.items():
            mine[cell] = max(mine.get(cell, 0.0), seconds / one.mean_seconds)
    lacking = Counter(one.next_measurement for one in waiting)

    def weight(one: Open) -> tuple[float, int]:
        return round(sum(parts[one.next_measurement].values()), 2), lacking[one.next_measurement]

    return max(waiting, key=weight, default=None)


def _checks(evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    through: dict[tuple[str, str], list[Anatomy]] = {}
    for item in anatomy:
        for model in {stage.model for stage in item.stages}:
            through.setdefault((item.server, model), []).append(item)
    for result in results:
        outcome, on = result.outcome, result.subject
        if isinstance(outcome, Unknown) and outcome.reason is not Missing.IDLE:
            items = anatomy if on.model is None or on.gpu is not None else through.get((on.server, on.model), ())
            reached = [(_reached(evidence, result, item), item.mean_seconds) for item in items]
            cells, mean = max(reached, key=lambda one: sum(one[0].values()), default=({}, 0.0))
            yield Open(
                text=f"{result.check.id} of {result.subject} cannot be decided: {_lacks(outcome)}",
                next_measurement=_measurement(evidence, result, outcome),
                cells=cells,
                mean_seconds=mean,
            )


def _reached(evidence: Evidence, result: Result, item: Anatomy) -> dict[Cell, float]:
    """Return the seconds of an entry's request that a check may claim."""
    on = result.subject
    if item.server != on.server or item.requests < ENOUGH_EVENTS or _batched_outside(evidence, result):
        return {}
    phases = _phases(result)
    part = min(result.entry.weight, 1.0) if result.entry and on.version else 1.0
    return {
        (item.server, entry_name(item.ensemble, stage.model), stage.model, phase): part * seconds
        for stage in item.stages
        if _speaks_of(evidence, on, stage.model, item)
        for phase, seconds in stage.cells.items()
        if phase in phases
    }


def could_matter(
    evidence: Evidence, result: Result, anatomy: Sequence[Anatomy], *, explained: bool, on_cards: Container[str]
) -> bool:
    """Return whether what a check did not read could change what is said of a window that has a verdict.

    A finding that lacks a reading is less certain. A check that could not decide matters as far as it reaches time
    that is worth a change. One that was quiet all the same matters where nothing else is found wrong.

    Args:
        evidence: what was read.
        result: what the check said.
        anatomy: where time goes.
        explained: whether a cause was found.
        on_cards: the servers where `on_cards` finds time that a GPU may take.

    """
    if result.fires is not None:
        return True
    if result.check.check.layer is Layer.GPU and result.subject.server not in on_cards:
        return False
    if not isinstance(result.outcome, Unknown):
        return not explained
    if result.check.id == "ensemble-overhead":
        return any(item.unattributed_seconds >= least_worthwhile(item.mean_seconds) for item in anatomy)
    if not result.check.check.reach:
        return True
    return any(
        sum(_reached(evidence, result, item).values()) >= least_worthwhile(item.mean_seconds) for item in anatomy
    )


def on_cards(evidence: Evidence, anatomy: Sequence[Anatomy]) -> frozenset[str]:
    """Return the servers whose requests spend time that is worth a change in stages that may run on a GPU."""
    return frozenset(
        item.server for item in anatomy if _seconds_on_cards(evidence, item) >= least_worthwhile(item.mean_seconds)
    )


def _seconds_on_cards(evidence: Evidence, item: Anatomy) -> float:
    return sum(stage.seconds for stage in item.stages if _may_be_on_card(evidence, item.server, stage.model))


def _may_be_on_card(evidence: Evidence, server: str, model: str) -> bool:
    return evidence.read(ON_GPU, Subject(server=server, model=model)).value != 0


def _phases(result: Result) -> frozenset[Phase]:
    signal, phases = REACH_ONCE_SEEN.get(result.check.id, ("", frozenset[Phase]()))
    if isinstance(result.outcome, Unknown) and result.outcome.signal == signal:
        return phases
    return result.check.check.reach


def _batched_outside(evidence: Evidence, result: Result) -> bool:
    """Return whether an engine is handed whole batches: then requests wait in Triton's queue, and not inside."""
    of_engine = result.check.check.layer is Layer.ENGINE
    return of_engine and (evidence.read(BATCH_SIZE, result.subject).value or 0.0) >= BATCHES_FORM.value


def _speaks_of(evidence: Evidence, on: Subject, model: str, item: Anatomy) -> bool:
    """Return whether a subject's check may claim time in a model's stage: a card's in what may run on it."""
    if on.gpu is not None:
        return _may_be_on_card(evidence, on.server, model)
    return on.model in (None, model) and on.ensemble in (None, item.ensemble)


def _lacks(outcome: Unknown) -> str:
    return f"{outcome.signal.replace('_', ' ')} {outcome.reason.value.replace('_', ' ')}"


def _measurement(evidence: Evidence, result: Result, outcome: Unknown) -> str:
    signal, _ = result.ledger.absent.get(outcome.signal, (None, None))
    if outcome.reason is Missing.TOO_FEW_EVENTS:
        return "read for longer: more events decide it"
    kind = evidence.server_kind(result.subject)
    if kind is not None and (signal is None or kind.name not in signal.fix):
        return kind.compare_limits if Phase.QUEUE in _phases(result) else f"read the log of {kind.name}"
    if signal is not None and signal.fix:
        return signal.fix
    return "read the server's HTTP or gRPC port too: its statistics and configuration tell more than its metrics"


def _unaccounted(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield time that no stage accounts for: it may be an engine's, a queue's or the frontend's."""
    for item in anatomy:
        if not item.stages or item.requests < ENOUGH_EVENTS or item.mean_seconds <= 0:
            continue
        name, seconds = entry_name(item.ensemble, item.stages[0].model), item.unattributed_seconds
        share = Unit.RATIO.show(seconds / item.mean_seconds)
        yield Open(
            text=f"{Unit.SECONDS.show(seconds)} of a request of {name}, {share}, is outside of what its models "
            "account for",
            next_measurement=_shows_the_rest(evidence, item, name),
            cells={(item.server, name, "", Phase.GAP): seconds},
            mean_seconds=item.mean_seconds,
        )


def _on_the_way(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield the time in which large tensors travel, where neither clients nor spans of the frontend show it.

    Rows begin when a request has been read. That its tensors are large shows in how long their copies take.
    """
    for item in anatomy:
        if not item.stages or item.requests < ENOUGH_EVENTS or item.mean_seconds <= 0:
            continue
        name, first, last = entry_name(item.ensemble, item.stages[0].model), item.stages[0], item.stages[-1]
        on = Subject(server=item.server, model=None if item.ensemble else name, ensemble=item.ensemble)
        if any(evidence.read(signal, on).value is not None for signal in (HANDLING_SECONDS, OUTSIDE_SECONDS)):
            continue
        copied = first.cells.get(Phase.INPUT, 0.0) + last.cells.get(Phase.OUTPUT, 0.0)
        seconds = WAY_PER_COPY * copied
        yield Open(
            text=f"copies of a request's tensors take {Unit.SECONDS.show(copied)} in {name}: their way through the "
            "network and the frontend takes longer, and was not read",
            next_measurement=f"{TRACE_FIX}, or record what a client sees",
            cells={(item.server, name, "", Phase.GAP): seconds},
            mean_seconds=item.mean_seconds + seconds,
        )


def _inside_engines(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield the time of models that generate text in their own row, as if computed: requests may wait inside for it."""
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            config, seconds = evidence.config(on), stage.cells.get(Phase.COMPUTE, 0.0)
            if item.requests < ENOUGH_EVENTS or config is None or not generates(config) or evidence.is_engine(on):
                continue
            yield Open(
                text=f"{stage.model} runs an engine whose gauges were not read: requests may wait inside it",
                next_measurement=ENGINE_WAITING.fix,
                cells={(item.server, entry_name(item.ensemble, stage.model), stage.model, Phase.COMPUTE): seconds},
                mean_seconds=item.mean_seconds,
            )


def _shows_the_rest(evidence: Evidence, item: Anatomy, name: str) -> str:
    if item.ensemble is None and evidence.config(Subject(server=item.server, model=name)) is None:
        return f"{CONFIG_FIX}: {name} may be an ensemble, or answer from a thread of its own"
    return TRACE_FIX if item.source != "traces" else "compare a client on the server's machine"
