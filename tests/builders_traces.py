"""Traces as Triton's exporter sends them, from the instants of each phase.

    traces = [ensemble_trace(f"{i:032x}", at=10.0 + i, stages=(Leg("safety", queue=0.1, compute=0.02),))]
    body = export([span for trace in traces for span in trace])

Seconds in, nanoseconds on the wire, as offsets from `START`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START

NS = 10**9
Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One stage of a traced request: seconds per phase, `gap` before it, and `starts` to run beside others."""

    model: str
    queue: float = 0.0
    input: float = 0.0
    compute: float = 0.0
    output: float = 0.0
    gap: float = 0.0
    starts: float | None = None
    version: str = "1"
    below: tuple[Leg, ...] = ()

    @property
    def seconds(self) -> float:
        """From arrival to release."""
        return self.queue + self.input + self.compute + self.output


def nanoseconds(at: float) -> int:
    """Return an instant, seconds after `START`, as Unix nanoseconds."""
    return round(START) * NS + round(at * NS)


def span(
    trace: str,
    identity: str,
    name: str,
    start: float,
    end: float,
    *,
    parent: str = "",
    model: str = "",
    version: str = "1",
    nested: bool = False,
    kind: int = 2,
    marks: Mapping[str, float] | None = None,
) -> Json:
    """Return one span as OTLP JSON; `marks` maps an event's name to its instant."""
    found: Json = {
        "traceId": trace,
        "spanId": identity,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(nanoseconds(start)),
        "endTimeUnixNano": str(nanoseconds(end)),
        "events": [{"name": mark, "timeUnixNano": str(nanoseconds(at))} for mark, at in (marks or {}).items()],
    }
    if parent:
        found["parentSpanId"] = parent
    if model:
        found["attributes"] = [
            {"key": "triton.model_name", "value": {"stringValue": model}},
            {"key": "triton.model_version", "value": {"intValue": version}},
            {"key": "triton.trace_parent_id", "value": {"intValue": "7" if nested else "0"}},
        ]
    return found


def visit(trace: str, identity: str, leg: Leg, at: float, *, parent: str, nested: bool) -> list[Json]:
    """Return the spans of one visit to a model that computes: its own, its computation's and those below it."""
    began = at + leg.queue
    steps = {
        "COMPUTE_START": began,
        "COMPUTE_INPUT_END": began + leg.input,
        "COMPUTE_OUTPUT_START": began + leg.input + leg.compute,
        "COMPUTE_END": at + leg.seconds,
    }
    own = {"REQUEST_START": at, "QUEUE_START": at, "REQUEST_END": at + leg.seconds}
    end, version = at + leg.seconds, leg.version
    found = [
        span(trace, f"{identity}c", "compute", began, end, parent=identity, marks=steps),
        span(
            trace,
            identity,
            leg.model,
            at,
            end,
            parent=parent,
            model=leg.model,
            version=version,
            nested=nested,
            marks=own,
        ),
    ]
    inside = began + leg.input
    for number, child in enumerate(leg.below):
        start = inside + child.gap if child.starts is None else began + child.starts
        found += visit(trace, f"{identity}.{number}", child, start, parent=identity, nested=True)
        inside = start + child.seconds
    return found


def call(trace: str, leg: Leg, at: float, *, parent: str = "", front: float = 0.0) -> list[Json]:
    """Return the spans of a request to a model itself, with the frontend's span, `front` seconds longer."""
    identity = f"{leg.model}-{at:.6f}"
    return [
        *visit(trace, f"{identity}v", leg, at + front / 2, parent=identity, nested=False),
        _front(trace, identity, at, at + leg.seconds + front, front, parent),
    ]


def ensemble_trace(
    trace: str, at: float, stages: Sequence[Leg], *, name: str = "chat", tail: float = 0.0
) -> list[Json]:
    """Return the spans of an ensemble's request whose stages follow one another, or start when they say."""
    found, now, last = list[Json](), at, at
    for number, leg in enumerate(stages):
        start = now + leg.gap if leg.starts is None else at + leg.starts
        found += visit(trace, f"{trace[-6:]}s{number}", leg, start, parent=f"{trace[-6:]}e", nested=True)
        now = start + leg.seconds
        last = max(last, now)
    end = last + tail
    marks = {"REQUEST_START": at, "QUEUE_START": at, "REQUEST_END": end}
    front = f"{trace[-6:]}f"
    return [
        *found,
        span(trace, f"{trace[-6:]}e", name, at, end, parent=front, model=name, marks=marks),
        _front(trace, front, at, end, 0.0, ""),
    ]


def _front(trace: str, identity: str, start: float, end: float, front: float, parent: str) -> Json:
    marks = {
        "HTTP_RECV_START": start,
        "HTTP_RECV_END": start,
        "INFER_RESPONSE_COMPLETE": end - front / 2,
        "HTTP_SEND_START": end,
        "HTTP_SEND_END": end,
    }
    return span(trace, identity, "InferRequest", start, end, parent=parent, marks=marks)


def export(spans: Iterable[Json], service: str = "triton-inference-server") -> bytes:
    """Return one export body."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scopes = [{"scope": {"name": "triton-server"}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()


def exported(body: bytes, at: float = 1.0) -> Scrape:
    """Return a body as the scrape that a capture holds."""
    return Scrape(server="", kind=BodyKind.TRACES, at=START + at, mono=START + at, body=body)


def trace_id(number: int) -> str:
    """Return a trace id."""
    return f"{number:032x}"
