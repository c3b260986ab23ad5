"""Servers whose traffic changes from read to read: what builders of steady ones cannot tell.

window = told({("m", "1"): [Did(requests=40)] * 10 + [Did(requests=90)] * 10}, interval=2.0)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, metrics_page, statistics_body

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """What one model version did between two reads.

    `seconds`, `queue`, `infer` are per request; `size` is items per request and per execution; `pending` waits at the
    end. `absent`: the version is not listed at the end; `anew`: it was reloaded in place since the read before, so that
    its statistics count from zero while the metrics page counts on (core shares a reporter between the two copies).
    """

    requests: float = 0.0
    seconds: float = 0.1
    queue: float = 0.0
    infer: float = 0.05
    size: int = 1
    pending: float = 0.0
    absent: bool = False
    anew: bool = False


def story_scrapes(
    story: Mapping[Key, Sequence[Did]],
    *,
    interval: float = 2.0,
    server: str = SERVER,
    configs: Mapping[str, Mapping[str, object]] | None = None,
) -> list[Scrape]:
    """Return metrics and statistics of a server, read at the start and after each step of the story."""
    found = [
        _scrape(server, BodyKind.CONFIG, 0.0, json.dumps(config), name) for name, config in (configs or {}).items()
    ]
    counts = {key: Counts() for key, steps in story.items() if not steps[0].absent}
    pages = dict(counts)
    pending = dict.fromkeys(counts, 0.0)
    found += _read(server, 0.0, pages, counts, pending)
    for number in range(max(map(len, story.values()))):
        for key, steps in story.items():
            did = steps[number]
            if did.absent:
                counts.pop(key, None)
                pages.pop(key, None)
                continue
            pages[key] = _plus(pages.get(key, Counts()), did)
            counts[key] = _plus(Counts() if did.anew else counts.get(key, Counts()), did)
            pending[key] = did.pending
        found += _read(server, (number + 1) * interval, pages, counts, pending)
    return found


def reported(story: Mapping[Key, Sequence[Did]], *, interval: float = 2.0, **more: object) -> Window:
    """Return the window of one server's story."""
    return window_of(story_scrapes(story, interval=interval, **more))  # type: ignore[arg-type]


def indexed(at: float, *entries: tuple[str, str, str, str], server: str = SERVER) -> Scrape:
    """Return an index read at a second of the story: entries of (model, version, state, reason)."""
    listed = [{"name": m, "version": v, "state": s, **({"reason": r} if r else {})} for m, v, s, r in entries]
    return _scrape(server, BodyKind.INDEX, at, json.dumps(listed))


def logged(*lines: str, server: str = SERVER) -> Scrape:
    """Return a server's log."""
    return _scrape(server, BodyKind.LOG, 0.0, "\n".join(lines))


def sent(moments: Sequence[float], seconds: float | Sequence[float] = 0.1, model: str = "m") -> Scrape:
    """Return a client's record of requests sent at seconds of the story."""
    each = [seconds] * len(moments) if isinstance(seconds, int | float) else seconds
    pairs = zip(moments, each, strict=True)
    rows = [{"t": START + at, "model": model, "ms": took * 1e3, "ok": True} for at, took in pairs]
    return replace(_scrape("", BodyKind.CLIENT, 0.0, "\n".join(map(json.dumps, rows))), server="")


def _plus(counts: Counts, did: Did) -> Counts:
    items, executions = did.requests * did.size, did.requests
    before = counts.batches.get(did.size, (0.0, 0.0))
    batch = (before[0] + executions, before[1] + executions * did.infer)
    return Counts(
        requests=counts.requests + did.requests,
        items=counts.items + items,
        executions=counts.executions + executions,
        seconds=counts.seconds + did.requests * did.seconds,
        queue=counts.queue + did.requests * did.queue,
        infer=counts.infer + did.requests * did.infer,
        batches={**counts.batches, did.size: batch} if executions else counts.batches,
    )


def _read(
    server: str, at: float, pages: Mapping[Key, Counts], counts: Mapping[Key, Counts], pending: Mapping[Key, float]
) -> list[Scrape]:
    waiting = [
        f'nv_inference_pending_request_count{{model="{m}",version="{v}"}} {pending.get((m, v), 0.0):.0f}'
        for m, v in counts
    ]
    return [
        _scrape(server, BodyKind.METRICS, at, metrics_page(pages, waiting)),
        _scrape(server, BodyKind.STATISTICS, at, json.dumps(statistics_body(counts))),
    ]


def _scrape(server: str, kind: BodyKind, at: float, body: str, name: str = "") -> Scrape:
    return Scrape(server=server, kind=kind, at=START + at, mono=START + at, body=body.encode(), name=name)
