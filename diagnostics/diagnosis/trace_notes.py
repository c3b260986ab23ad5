"""What is wrong with the traces of a window, and what therefore could not be seen in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.subject import Subject
from diagnostics.units import Unit
from diagnostics.window.traces import SpanCounts
from diagnostics.window.visits import TracedRequest, clock_skew

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
