"""What could not be seen of a window, and why: traces, clocks, GPUs, models that were never loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.absences import ABSENT_THROUGHOUT, RETIRED
from diagnostics.signals.availability import FAILED_VERSIONS, NEVER_LOADED
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_SIGHT, Sight
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.units import Unit
from diagnostics.window.traces import SpanCounts, TracedRequest, clock_skew

# Some spans of every window belong to requests that began before it; more than this are lost on their way.
_LOST_SHARE = 0.02
_LOST_SPANS = 10
# Clocks that are synchronized differ by less; the tool uses durations only, but people compare times.
_SKEW_SECONDS = 0.005
_AUTHENTICATE = "ask senders for credentials: web.config_file or web.bearer_token_file"
_KEEP_MORE = "raise otlp.max_kept_spans_per_second where percentiles of rare requests matter"
_EXPORTER = "raise --trace-config opentelemetry,bsp_max_queue_size, or trace fewer requests (rate)"


class Note(NamedTuple):
    """What could not be seen, why, and what to do."""

    what: str
    why: str
    fix: str


def trace_notes(evidence: Evidence, anatomy: Sequence[Anatomy]) -> tuple[Note, ...]:
    """Return the notes in order of weight; none for traces that are whole and agree with the counters."""
    doubts = (
        Note(f"traces of {item.ensemble or item.stages[0].model}", f"{item.doubt}; the counters are shown", _EXPORTER)
        for item in anatomy
        if item.doubt
    )
    return (*doubts, *_losses(evidence.span_counts()), *_skews(evidence, anatomy))


def _losses(counts: SpanCounts) -> Iterator[Note]:
    if counts.unreadable:
        what = f"{counts.unreadable} of {counts.bodies} trace exports"
        yield Note(what, counts.reason, "record what the exporter sends, unaltered and in smaller batches")
    if counts.corrupt:
        yield Note(f"{counts.corrupt} of {counts.received} spans", "they could not be read", "look at what made them")
    if counts.unauthenticated:
        what = f"{counts.unauthenticated} of {counts.received} spans"
        why = "they came from other machines without credentials, so anyone may have made them"
        yield Note(what, why, _AUTHENTICATE)
    if counts.dropped:
        kept = Unit.RATIO.show(counts.kept_share)
        yield Note(f"{counts.dropped} of {counts.received} spans", f"{kept} of the traces fit", "shorten the window")
    elif counts.kept_share < 1:
        kept = Unit.RATIO.show(counts.kept_share)
        yield Note("traces", f"{kept} of those that came were kept, chosen by their ids", _KEEP_MORE)
    lost = counts.orphaned + counts.unreachable
    if lost >= _LOST_SPANS and lost > _LOST_SHARE * counts.received:
        yield Note(f"{lost} of {counts.received} spans", "what they belong to never arrived", _EXPORTER)


def _skews(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Note]:
    worst: dict[str, float] = {}
    for item in anatomy:
        model = None if item.ensemble else item.stages[0].model
        for service, seconds in _skew(evidence.calls(Subject(server=item.server, model=model, ensemble=item.ensemble))):
            worst[service] = max(worst.get(service, 0.0), seconds)
    for service, seconds in sorted(worst.items()):
        if seconds >= _SKEW_SECONDS:
            why = f"its clock is {Unit.SECONDS.show(seconds)} or more from the server's"
            yield Note(f"instants of {service}", why, "synchronize the clocks; durations are right all the same")


def _skew(requests: Sequence[TracedRequest]) -> Iterator[tuple[str, float]]:
    return ((found.service, found.seconds) for request in requests for found in clock_skew(request))


# Why requests were not counted, though their counters were read.
DISORDERS: Mapping[Missing, str] = {
    Missing.CONFLICTING: "the recording's clock ran backwards: counters fall from each read to the next",
    Missing.STALE: "the recording's clock stood still: all reads have one time",
    Missing.RESET: "request counters jump back again and again, as those of several servers behind one address do",
}
_BY_CLOCKS = (Missing.CONFLICTING, Missing.STALE)
_ANEW = (
    "record anew with diag record, on a machine whose clock is kept in step (NTP); file bodies that were saved "
    "otherwise under the times at which they were read"
)


def clock_notes(evidence: Evidence) -> Mapping[str, Note]:
    """Return a note for each server whose reads have no order in time, by its name; none where they have."""
    found: dict[str, Note] = {}
    for model in evidence.subjects(Scope.MODEL):
        reason = evidence.read(REQUESTS, model).missing
        if reason in _BY_CLOCKS and model.server not in found:
            found[model.server] = Note(f"all that {model.server} counts over time", DISORDERS[reason], _ANEW)
    return found


_DCGM = (
    "give dcgm-exporter's page with --dcgm-url, its collectors with DCGM_FI_PROF_SM_ACTIVE and "
    "DCGM_FI_PROF_DRAM_ACTIVE; they are blank while another profiler uses the card"
)
_NOTES = {
    Sight.TIME_ONLY: (
        "how full {} is",
        "only the share of time in which some kernel runs was read, which a card with room left fills too",
        f"on Hopper and later record on its machine (extra `gpu`), else {_DCGM}",
    ),
    Sight.PART_WITHOUT_ACTIVITY: (
        "how full this server's part of {} is",
        "the card is divided (MIG): there is no utilization of a part, and no activity of it was read",
        f"on Hopper and later record on its machine (extra `gpu`), else {_DCGM}",
    ),
    Sight.UNKNOWN_PART: (
        "which part of {} this server works on",
        "the card is divided (MIG), and none of the server's processes was seen on one of its parts",
        "record on the GPU's machine, outside of other process namespaces, or in a container that has one part alone",
    ),
}


def gpu_notes(evidence: Evidence) -> Iterator[Note]:
    """Return a note for each card whose fullness could not be read; none for servers without a busy model on a GPU."""
    models = evidence.subjects(Scope.MODEL)
    busy = {on.server for on in models if evidence.read(ON_GPU, on).value and evidence.read(REQUESTS, on).value}
    for card in evidence.subjects(Scope.GPU):
        sight = evidence.read(GPU_SIGHT, card).value
        if card.server in busy and sight is not None and Sight(int(sight)) in _NOTES:
            what, why, fix = _NOTES[Sight(int(sight))]
            yield Note(what.format(card.gpu_name or "the GPU"), why, fix)


# A server with explicit control may have hundreds.
MOST_SHOWN = 3


def repository_notes(evidence: Evidence, *, explained: bool) -> Iterator[Note]:
    """Return a note for each server with such models; those whose load failed are findings, not notes.

    Args:
        evidence: what was read.
        explained: whether a cause was found: what was never loaded, or is no longer, is named only where none was.

    """
    found: dict[tuple[str, str], list[str]] = {}
    for on in evidence.subjects(Scope.LISTED):
        if on.model and not evidence.read(FAILED_VERSIONS, on).value and (why := _absence(evidence, on, explained)):
            found.setdefault((on.server, why), []).append(on.model)
    for (server, why), models in found.items():
        more = f" and {len(models) - MOST_SHOWN} more" if len(models) > MOST_SHOWN else ""
        yield Note(
            f"requests to {', '.join(models[:MOST_SHOWN])}{more} on {server}",
            f"{why}: the server refuses such requests and counts none of them",
            "if clients send any, read in the server's log why it refused the model ('Poll failed', 'failed to "
            "load'), or "
            "load it; clients' own error counts also show it",
        )


def _absence(evidence: Evidence, on: Subject, explained: bool) -> str:
    if evidence.read(NEVER_LOADED, on).value:
        return "" if explained else "in its repository, and never loaded"
    if evidence.read(RETIRED, on).value:
        return "" if explained else "unloaded, and not known to be in use"
    return "not ready at any read" if evidence.read(ABSENT_THROUGHOUT, on).value else ""
