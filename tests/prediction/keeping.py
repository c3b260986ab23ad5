"""Keeps what a predictor reads of a measurement: a capture in which one of ten requests is traced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import Kind, Scrape
from tests.benchmark.record import without_standin
from tests.prediction.observing import INTERVAL_SECONDS

TRACE_RATE = 10


def keep(path: Path, scrapes: Sequence[Scrape]) -> None:
    """Write the capture of a measurement of which every request was traced."""
    traces = [scrape for scrape in scrapes if scrape.kind is Kind.TRACES]
    others = [without_standin(scrape) for scrape in scrapes if scrape.kind is not Kind.TRACES]
    begun = min(scrape.at for scrape in others if scrape.kind is Kind.STATISTICS)
    kept = sorted([*others, *thinned(traces, begun)], key=lambda scrape: scrape.at)
    servers = sorted({scrape.server for scrape in others if scrape.kind is Kind.STATISTICS})
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".tar.xz")
    with CaptureWriter(path, name, servers, INTERVAL_SECONDS, trace_rate=TRACE_RATE, overwrite=True) as writer:
        for scrape in kept:
            writer.add(scrape)


def thinned(traces: Sequence[Scrape], since: float) -> list[Scrape]:
    """Return OTLP bodies in JSON with the spans of every tenth trace that began `since` then; no empty bodies."""
    decoded = [json.loads(scrape.body or b"{}") for scrape in traces]
    begun: dict[str, int] = {}
    for body in decoded:
        for spans in _span_lists(body):
            for span in spans:
                start = int(span["startTimeUnixNano"])
                begun[span["traceId"]] = min(start, begun.get(span["traceId"], start))
    within = [trace for trace, start in begun.items() if start >= since * 1e9]
    chosen = set(sorted(within, key=lambda trace: begun[trace])[::TRACE_RATE])
    kept = []
    for scrape, body in zip(traces, decoded, strict=True):
        lists = list(_span_lists(body))
        for spans in lists:
            spans[:] = [span for span in spans if span["traceId"] in chosen]
        if any(lists):
            kept.append(replace(scrape, body=msgspec.json.encode(body)))
    return kept


def _span_lists(body: dict[str, list[dict[str, list[dict[str, list[dict[str, str]]]]]]]) -> list[list[dict[str, str]]]:
    return [scope["spans"] for resource in body["resourceSpans"] for scope in resource["scopeSpans"]]
