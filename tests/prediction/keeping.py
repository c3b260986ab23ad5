"""Keeps what a predictor reads of a measurement: a capture in which one of ten requests is traced."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from tests.benchmark.record import without_standin

TRACE_RATE = 10
# By default, Triton's exporter sends what it has every five seconds.
EXPORT_SECONDS = 5.0
Body = dict[str, Any]


def keep(path: Path, scrapes: Sequence[Scrape], interval: float, every: int = TRACE_RATE) -> None:
    """Write the capture of a measurement with one of `every` traces; one of ten requests is then traced."""
    traces = [scrape for scrape in scrapes if scrape.kind is BodyKind.TRACES]
    others = [without_standin(scrape) for scrape in scrapes if scrape.kind is not BodyKind.TRACES]
    begun = min(scrape.at for scrape in others if scrape.kind is BodyKind.STATISTICS)
    kept = sorted([*others, *thinned(traces, begun, every)], key=lambda scrape: scrape.at)
    servers = sorted({scrape.server for scrape in others if scrape.kind is BodyKind.STATISTICS})
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".tar.xz")
    with CaptureWriter(path, name, servers, interval, trace_rate=TRACE_RATE, overwrite=True) as writer:
        for scrape in kept:
            writer.add(scrape)


def thinned(traces: Sequence[Scrape], since: float, every: int = TRACE_RATE) -> list[Scrape]:
    """Return OTLP bodies in JSON with the spans of one of `every` traces that began `since` then; no empty bodies."""
    decoded = [json.loads(scrape.body or b"{}") for scrape in traces]
    begun: dict[str, int] = {}
    for body in decoded:
        for spans in _span_lists(body):
            for span in spans:
                start = int(span["startTimeUnixNano"])
                begun[span["traceId"]] = min(start, begun.get(span["traceId"], start))
    within = [trace for trace, start in begun.items() if start >= since * 1e9]
    chosen = set(sorted(within, key=lambda trace: begun[trace])[::every])
    ids = _Ids()
    parts = [(scrape, list(_chosen(body, chosen, ids))) for scrape, body in zip(traces, decoded, strict=True)]
    return list(_exports(parts))


def _chosen(body: Body, chosen: Container[str], ids: _Ids) -> Iterator[dict[str, Any]]:
    for spans in _span_lists(body):
        yield from (ids.shortened(span) for span in spans if span["traceId"] in chosen)


class _Ids:
    """Counts up instead of the random numbers that ids are: these are half of what a compressed trace takes."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def shortened(self, span: dict[str, Any]) -> dict[str, Any]:
        """Return the span with its own ids and its parent's counted, as wide as they were."""
        named = {key: span[key] for key in ("traceId", "spanId", "parentSpanId") if span.get(key)}
        numbers = {key: self._numbers.setdefault(value, len(self._numbers) + 1) for key, value in named.items()}
        return {**span, **{key: f"{number:0{len(named[key])}x}" for key, number in numbers.items()}}


def _exports(parts: Sequence[tuple[Scrape, Sequence[dict[str, Any]]]]) -> Iterator[Scrape]:
    """Yield one body for each stretch of time in which any span came, as of an exporter with Triton's own delay."""
    for _, group in groupby(parts, key=lambda part: part[0].at // EXPORT_SECONDS):
        stretch = list(group)
        last, spans = stretch[-1][0], [span for _, some in stretch for span in some]
        resource = json.loads(last.body or b"{}")["resourceSpans"][0]
        body = {"resourceSpans": [{**resource, "scopeSpans": [{**resource["scopeSpans"][0], "spans": spans}]}]}
        if spans:
            yield replace(last, body=msgspec.json.encode(body))


def _span_lists(body: Body) -> list[list[dict[str, Any]]]:
    return [scope["spans"] for resource in body["resourceSpans"] for scope in resource["scopeSpans"]]
