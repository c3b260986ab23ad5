"""What a window lacks without which nothing in it can be called healthy: counters, reads, an engine's time, a graph."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from diagnostics import names
from diagnostics.anatomy.anatomy import Anatomy, Phase, likely_ensembles, longest_call
from diagnostics.diagnosis.clock_notes import DISORDERS
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE
from diagnostics.signals.absences import ABSENT_THROUGHOUT
from diagnostics.signals.availability import FAILED_VERSIONS
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.engine_rows import LONGEST_HANDOVER, MOST_BUSY
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.latency import SUMMARIZED_REQUESTS
from diagnostics.signals.orchestration import MODELS_IN_STEP, ORCHESTRATED_SECONDS
from diagnostics.signals.outages import CLIENT_FAILURES
from diagnostics.signals.plausibility import IMPLAUSIBLE_STEPS
from diagnostics.signals.reading import Missing
from diagnostics.signals.settings import CONFIG_FIX, INSTANCES
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.traces import TRACE_FIX
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.window.view import METRICS

# A steady level is told from a stall or a step beside it by a quartile of four intervals: five reads.
FEWEST_READS = 5


class Unread(NamedTuple):
    """What is missing, and the measurement to take next; the latter may be empty."""

    text: str
    next_measurement: str = ""


def core_missing(evidence: Evidence) -> str:
    """Return what is missing of the signals without which nothing can be called healthy; empty when nothing is."""
    models = evidence.subjects(Scope.MODEL)
    if not models:
        return "no model's counters could be read"
    readings = [evidence.read(REQUESTS, model) for model in models]
    for model, reading in zip(models, readings, strict=True):
        if reading.value is None and (evidence.read(IMPLAUSIBLE_STEPS, model).value or 0.0) > 0:
            return f"counters of {model.model} are impossible at every read: they show increases that no server makes"
    if all(reading.value is None for reading in readings):
        return _uncounted({reading.missing for reading in readings})
    for model, reading in zip(models, readings, strict=True):
        if reading.value == 0 and (evidence.read(SUMMARIZED_REQUESTS, model).value or 0.0) > 0:
            return f"counters of {model.model} stand still while its summaries count: counter_latencies is off"
        if not reading.value or reading.value < ENOUGH_EVENTS:
            continue
        for signal in (QUEUE_SECONDS, REQUEST_SECONDS):
            if evidence.read(signal, model).missing not in (None, Missing.TOO_FEW_EVENTS):
                return f"{signal.name} of {model.model} could not be read"
    return ""


def _uncounted(reasons: Set[Missing | None]) -> str:
    if reasons == {Missing.TOO_FEW_EVENTS}:
        return "no counter was read twice"
    return next((told for reason, told in DISORDERS.items() if reason in reasons), "request counters are not exported")


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
                "refuse all of them",
                "send it a request as a client does; look at the errors that clients get, and at the server's log",
            )
    return None


def absent_model(evidence: Evidence) -> Unread | None:
    """Return a model that was never there while the window was read, where nothing tells whether anybody asks for it.

    Triton counts none of the requests that it refuses, so the counters of a server look alike with and without them.
    """
    for on in evidence.subjects(Scope.LISTED):
        if on.model is not None and evidence.read(ABSENT_THROUGHOUT, on).value:
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
                "loaded, are in none of them",
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

    A row that ends when its request is handed to an engine or a thread tells nothing of the request's time.
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
    for item in anatomy:
        stage = item.stages[0]
        on = Subject(server=item.server, model=stage.model)
        counted = evidence.read(EXECUTION_SECONDS, on).value is not None and item.requests >= ENOUGH_EVENTS
        if item.ensemble is not None or evidence.config(on) is not None or not counted:
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
    return whole - row < max(WORTHWHILE_SECONDS, WORTHWHILE_SHARE * whole)


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
                f"read for longer or more often: {FEWEST_READS} reads tell a change from what is usual",
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
