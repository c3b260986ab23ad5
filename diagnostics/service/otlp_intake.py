"""Takes export requests, whichever listener they came by: reads their spans once and gives them to deployments."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from diagnostics.errors import MalformedBody
from diagnostics.service.deployment import RoutedSpans
from diagnostics.service.listening import ip_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import counted_as
from diagnostics.service.service import Service
from diagnostics.service.span_routing import Routed, Router, SpanSampler
from diagnostics.service.whole_messages import WholeMessages
from diagnostics.settings.tree import OtlpSettings
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import scrub
from diagnostics.wire.spans import RANKS, Recorded, Sieve, Span, Take, read_json, write_json
from diagnostics.wire.spans_protobuf import read_protobuf

LONGEST_TEXT = 256
"""Bytes of a name that is kept: names of models are those of folders. Sixty thousand spans are kept at once."""


class Form(Enum):
    """How an export request is written."""

    JSON = "application/json"
    PROTOBUF = "application/x-protobuf"


class ExportStatus(Enum):
    """What became of an export request."""

    OK = "ok"
    PARTIAL = "partial"
    THROTTLED = "throttled"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResponse:
    """What an exporter is answered.

    Attributes:
        status: what became of its request.
        rejected: spans that were not taken, of a request that was.
        message: why; empty when all is well.
        retry_after: whole seconds after which it may come back; 0 unless it is throttled.

    """

    status: ExportStatus = ExportStatus.OK
    rejected: int = 0
    message: str = ""
    retry_after: int = 0


# Seconds for which a sender that is silent keeps its share.
_ACTIVE_FOR = 10.0
_MOST_SENDERS = 1_000


@dataclass(slots=True)
class _Bucket:
    """Spans that are left at a moment of the steady clock."""

    left: float
    since: float

    def refill(self, per_second: float, now: float) -> float:
        """Return what is left now, of at most a second's worth."""
        self.left = min(per_second, self.left + (now - self.since) * per_second)
        self.since = now
        return self.left


class Allowance:
    """Spans that may come: so many a second, a second's worth at once. The last request of a second may overdraw it.

    When it is used up, a sender that has used less than its equal share may still come: none can throttle another.
    From any thread; it is asked in the listener's event loop, which must not wait for a request that is being read.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self._clock = per_second, clock
        self._all = _Bucket(per_second, clock())
        # In the order in which they last sent.
        self._senders: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, sender: str) -> float:
        """Return in how many seconds a request of a sender may come; 0 for now."""
        with self._lock:
            now = self._clock()
            share = self.per_second / max(1, len(self._senders.keys() | {sender}))
            own = self._senders.get(sender)
            if self._all.refill(self.per_second, now) > 0 or own is None or own.refill(share, now) > 0:
                return 0.0
            return min((1 - self._all.left) / self.per_second, (1 - own.left) / share)

    def use(self, spans: int, sender: str) -> None:
        """Take so many off what is left to all, and to their sender."""
        with self._lock:
            now = self._clock()
            own = self._senders.pop(sender, None) or _Bucket(self.per_second / (len(self._senders) + 1), now)
            own.left -= spans
            # What others may send beyond all of it is bounded, and so is what it takes to pay that back.
            self._all.left = max(self._all.left - spans, -2.0 * self.per_second)
            self._senders[sender] = own
            while self._senders and (
                len(self._senders) > _MOST_SENDERS or next(iter(self._senders.values())).since < now - _ACTIVE_FOR
            ):
                self._senders.popitem(last=False)


class SpanMemory(Protocol):
    """Someone who remembers bodies. Must return at once."""

    def record_clean(self, deployment: str, scrape: Scrape) -> None: ...


class OtlpIntake:
    """Used from any thread; requests are read one at a time, as reading holds the interpreter anyway.

    Attributes:
        whole: bounds the requests that wait to be read, whichever listener they came by.

    """

    def __init__(
        self,
        service: Service,
        metrics: OwnMetrics,
        settings: OtlpSettings,
        *,
        memory: SpanMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the allowance of one second.

        Args:
            service: whose deployments the spans are for.
            metrics: counts spans by outcome.
            settings: how many spans may come, and how many are kept.
            memory: records what a deployment was given; None records nothing.
            clock: steady seconds.

        """
        self._service, self._metrics, self._memory = service, metrics, memory
        self._allowance = Allowance(settings.max_spans_per_second, clock)
        self._router = Router(service, metrics.spans.labels("unassigned").inc)
        self._sampling = SpanSampler(settings.max_kept_spans_per_second, metrics, clock)
        self._lock = threading.Lock()
        self.whole = WholeMessages()

    def wait(self, peer: str) -> int:
        """Return in how many whole seconds a request from an address may come; 0 for now."""
        return math.ceil(self._allowance.wait(counted_as(peer)))

    def accept(self, body: bytes, form: Form, peer: str, *, authenticated: bool) -> ExportResponse:
        """Take an export request.

        Args:
            body: unpacked; whoever reads it from the network bounds it.
            form: how it is written.
            peer: address of the sender.
            authenticated: whether the sender proved who it is.

        """
        with self._lock:
            wait = self.wait(peer)
            if wait:
                return throttled(wait)
            spans: list[Span] = []
            sieve = _Sieve(self._router, self._sampling, self._service.deployments)
            try:
                corrupt = self._read(body, form, lambda span: spans.append(without_secrets(span)), sieve)
            except MalformedBody as error:
                return ExportResponse(status=ExportStatus.MALFORMED, message=error.what)
            self._allowance.use(len(spans) + corrupt + sieve.left_out, counted_as(peer))
            self._count(left_out=sieve.left_out)
            return self._taken(spans, corrupt, vouched=authenticated or _local(peer))

    def _read(self, body: bytes, form: Form, take: Take, sieve: Sieve) -> int:
        # By what the sender declares, never by looking: else gzip inside of gzip would unpack without a bound.
        return read_json(body, take, sieve) if form is Form.JSON else read_protobuf(body, take, sieve)

    def _taken(self, spans: list[Span], corrupt: int, *, vouched: bool) -> ExportResponse:
        most, at = self._allowance.per_second, time.time()
        beyond = max(0, len(spans) - most)
        given, full = 0, 0
        for name, traced in self._traced(self._router.route(spans[:most], at), corrupt, at, vouched=vouched):
            # What waits for the rest of its trace is counted when it is given, or given up.
            if self._give(name, traced):
                given += len(traced.spans)
                self._record(name, traced)
            else:
                full += len(traced.spans)
        self._count(accepted=given, corrupt=corrupt, refused=beyond + full)
        return _answer({"could not be read": corrupt, "are more than a second's worth": beyond, "found no room": full})

    def _traced(self, routed: Routed, corrupt: int, at: float, *, vouched: bool) -> Iterator[tuple[str, RoutedSpans]]:
        """Yield what each deployment is given; nothing to one all of whose traces are left out."""
        for name, spans in routed.items():
            kept = self._sampling.sift(name, spans)
            if kept:
                about = Recorded(vouched=vouched, share=self._sampling.share(name), corrupt=corrupt)
                yield name, RoutedSpans(kept, at, about)

    def _give(self, name: str, traced: RoutedSpans) -> bool:
        deployment = self._service.deployments.get(name)
        return deployment is not None and deployment.give(traced)

    def _record(self, deployment: str, traced: RoutedSpans) -> None:
        """Record what a deployment was given, written again: it replays, and nothing else that was sent is kept."""
        if self._memory is not None:
            body = write_json(traced.spans, traced.about)
            scrape = Scrape(server="", kind=BodyKind.TRACES, at=traced.at, mono=time.monotonic(), body=body)
            self._memory.record_clean(deployment, scrape)

    def _count(self, **outcomes: int) -> None:
        for outcome, spans in outcomes.items():
            self._metrics.spans.labels(outcome).inc(spans)


class _Sieve:
    """Leaves out what no deployment would keep, before it is read."""

    def __init__(self, router: Router, sampling: SpanSampler, deployments: Iterable[str]) -> None:
        self._router, self._sampling, self._deployments = router, sampling, deployments
        self.left_out = 0

    def limit(self, instance: str) -> int:
        """Return the rank from which on traces of this sender are left out."""
        name = self._router.called(instance)
        return self._sampling.limit(name) if name is not None else self._widest

    @cached_property
    def _widest(self) -> int:
        return max(map(self._sampling.limit, self._deployments), default=RANKS)

    def leave_out(self) -> None:
        """Count a span that was left out."""
        self.left_out += 1


def throttled(wait: int) -> ExportResponse:
    """Return the answer to a request that comes `wait` seconds too early."""
    return ExportResponse(
        status=ExportStatus.THROTTLED, message="more spans than otlp.max_spans_per_second", retry_after=wait
    )


def exported(answer: ExportResponse) -> ExportTraceServiceResponse:
    """Return the message that tells an exporter what became of a request that was taken."""
    message = ExportTraceServiceResponse()
    if answer.status is ExportStatus.PARTIAL:
        message.partial_success.rejected_spans = answer.rejected
        message.partial_success.error_message = answer.message
    return message


def _answer(rejected: Mapping[str, int]) -> ExportResponse:
    reasons = [f"{spans} spans {why}" for why, spans in rejected.items() if spans]
    if not reasons:
        return ExportResponse()
    return ExportResponse(status=ExportStatus.PARTIAL, rejected=sum(rejected.values()), message="; ".join(reasons))


def without_secrets(span: Span) -> Span:
    """Return the span without the secrets that its texts hold, each cut to `LONGEST_TEXT`; itself if all stays."""
    texts = (span.name, span.service, span.model, span.version, span.instance)
    length = sum(map(len, texts))
    short = length <= LONGEST_TEXT // 4 or (length <= LONGEST_TEXT and all(map(str.isascii, texts)))
    cleaned = _scrubbed(texts) if short else tuple(_cut(scrub(text)) for text in texts)
    if cleaned is None:
        return span
    name, service, model, version, instance = cleaned
    return span._replace(name=name, service=service, model=model, version=version, instance=instance)


def _cut(text: str) -> str:
    """Return as much of a text as file systems have of a name; a character may take four bytes."""
    return text.encode("utf-8", "replace")[:LONGEST_TEXT].decode("utf-8", "ignore")


@lru_cache(maxsize=10_000)
def _scrubbed(texts: tuple[str, ...]) -> tuple[str, ...] | None:
    cleaned = tuple(map(scrub, texts))
    return cleaned if cleaned != texts else None


def _local(peer: str) -> bool:
    """Return whether the sender is a process of this machine."""
    address = ip_of(peer)
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback
