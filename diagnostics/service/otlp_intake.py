"""Takes export requests, whichever door they came by: reads their spans once and gives them to deployments."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from diagnostics.errors import MalformedBody
from diagnostics.service.deployment import Traced
from diagnostics.service.http.listening import ip_of
from diagnostics.service.own_metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.span_routing import Router
from diagnostics.wire.records import Kind, Scrape
from diagnostics.wire.secret_shapes import scrub
from diagnostics.wire.spans import Span, Take
from diagnostics.wire.spans_json import read_json, write_json
from diagnostics.wire.spans_protobuf import read_protobuf


class Form(Enum):
    """How an export request is written."""

    JSON = "application/json"
    PROTOBUF = "application/x-protobuf"


class Status(Enum):
    """What became of an export request."""

    OK = "ok"
    PARTIAL = "partial"
    THROTTLED = "throttled"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an exporter is told.

    Attributes:
        status: what became of its request.
        rejected: spans that were not taken, of a request that was.
        message: why; empty when all is well.
        retry_after: whole seconds after which it may come back; 0 unless it is throttled.

    """

    status: Status = Status.OK
    rejected: int = 0
    message: str = ""
    retry_after: int = 0


class Allowance:
    """Spans that may come: so many a second, a second's worth at once. The last request of a second may overdraw it."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self._clock = per_second, clock
        self._left, self._since = float(per_second), clock()

    def wait(self) -> float:
        """Return in how many seconds a request may come; 0 for now."""
        now = self._clock()
        self._left = min(float(self.per_second), self._left + (now - self._since) * self.per_second)
        self._since = now
        return 0.0 if self._left > 0 else (1 - self._left) / self.per_second

    def use(self, spans: int) -> None:
        """Take so many off what is left."""
        self._left -= spans


class SpanMemory(Protocol):
    """Someone who remembers bodies. Must return at once."""

    def take_clean(self, deployment: str, scrape: Scrape) -> None: ...


class OtlpIntake:
    """Used from any thread; requests are read one at a time, as reading holds the interpreter anyway."""

    def __init__(
        self,
        service: Service,
        metrics: OwnMetrics,
        max_spans_per_second: int,
        *,
        memory: SpanMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the allowance of one second.

        Args:
            service: whose deployments the spans are for.
            metrics: counts spans by outcome.
            max_spans_per_second: beyond, exporters are told to come back later.
            memory: records what a deployment was given; None records nothing.
            clock: steady seconds.

        """
        self._service, self._metrics, self._memory = service, metrics, memory
        self._allowance = Allowance(max_spans_per_second, clock)
        self._router = Router(service, metrics.spans.labels("unassigned").inc)
        self._lock = threading.Lock()

    def wait(self) -> int:
        """Return in how many whole seconds a request may come; 0 for now."""
        with self._lock:
            return math.ceil(self._allowance.wait())

    def take(self, body: bytes, form: Form, peer: str, *, authenticated: bool) -> Answer:
        """Take an export request.

        Args:
            body: unpacked; whoever reads it from the network bounds it.
            form: how it is written.
            peer: address of the sender.
            authenticated: whether the sender proved who it is.

        """
        with self._lock:
            wait = math.ceil(self._allowance.wait())
            if wait:
                return throttled(wait)
            spans: list[Span] = []
            try:
                corrupt = self._read(body, form, lambda span: spans.append(without_secrets(span)))
            except MalformedBody as error:
                return Answer(status=Status.MALFORMED, message=error.what)
            return self._taken(spans, corrupt, vouched=authenticated or _local(peer))

    def _read(self, body: bytes, form: Form, take: Take) -> int:
        # By what the sender declares, never by looking: else gzip inside of gzip would unpack without a bound.
        return read_json(body, take) if form is Form.JSON else read_protobuf(body, take)

    def _taken(self, spans: list[Span], corrupt: int, *, vouched: bool) -> Answer:
        most, at = self._allowance.per_second, time.time()
        self._allowance.use(len(spans) + corrupt)
        beyond, kept = max(0, len(spans) - most), spans[:most]
        routed = self._router.route(kept, at)
        full = sum(
            len(found) for name, found in routed.items() if not self._give(name, Traced(found, corrupt, at, vouched))
        )
        self._record(routed, at)
        # What waits for the rest of its trace is counted when it is given, or given up.
        accepted = sum(map(len, routed.values())) - full
        self._count(accepted=accepted, corrupt=corrupt, refused=beyond + full)
        return _answer({"could not be read": corrupt, "are more than a second's worth": beyond, "found no room": full})

    def _give(self, name: str, traced: Traced) -> bool:
        deployment = self._service.deployments.get(name)
        return deployment is not None and deployment.give(traced)

    def _record(self, routed: Mapping[str, Sequence[Span]], at: float) -> None:
        """Record what each deployment was given, written anew: it replays, and nothing else that was sent is kept."""
        if self._memory is None:
            return
        for name, spans in routed.items():
            body = write_json(spans)
            self._memory.take_clean(name, Scrape(server="", kind=Kind.TRACES, at=at, mono=time.monotonic(), body=body))

    def _count(self, **outcomes: int) -> None:
        for outcome, spans in outcomes.items():
            self._metrics.spans.labels(outcome).inc(spans)


def throttled(wait: int) -> Answer:
    """Return the answer to a request that comes `wait` seconds too early."""
    return Answer(status=Status.THROTTLED, message="more spans than otlp.max_spans_per_second", retry_after=wait)


def exported(answer: Answer) -> ExportTraceServiceResponse:
    """Return the message that tells an exporter what became of a request that was taken."""
    message = ExportTraceServiceResponse()
    if answer.status is Status.PARTIAL:
        message.partial_success.rejected_spans = answer.rejected
        message.partial_success.error_message = answer.message
    return message


def _answer(rejected: Mapping[str, int]) -> Answer:
    reasons = [f"{spans} spans {why}" for why, spans in rejected.items() if spans]
    if not reasons:
        return Answer()
    return Answer(status=Status.PARTIAL, rejected=sum(rejected.values()), message="; ".join(reasons))


def without_secrets(span: Span) -> Span:
    """Return the span without the secrets that its texts hold; itself when they hold none."""
    texts = (span.name, span.service, span.model, span.version, span.instance)
    cleaned = _scrubbed(texts)
    if cleaned is None:
        return span
    name, service, model, version, instance = cleaned
    return span._replace(name=name, service=service, model=model, version=version, instance=instance)


@lru_cache(maxsize=10_000)
def _scrubbed(texts: tuple[str, ...]) -> tuple[str, ...] | None:
    cleaned = tuple(map(scrub, texts))
    return cleaned if cleaned != texts else None


def _local(peer: str) -> bool:
    """Return whether the sender is a process of this machine."""
    address = ip_of(peer)
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback
