"""What an engine did from page to page: tokens, the time between them, first tokens, prompts; and how long both are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics import names
from diagnostics.signals.engine_iterations import pages_inside
from diagnostics.signals.engine_samples import EngineReads, engine_of
from diagnostics.signals.signal import Missing
from diagnostics.window.normalize import series_named
from diagnostics.window.view import METRICS, Counter, ModelView
from diagnostics.wire.engine import EngineSample
from diagnostics.wire.exposition import Series, Snapshot
from diagnostics.wire.json_body import number
from diagnostics.wire.servers.catalogue import server_kinds, token_names
from diagnostics.wire.servers.kind import (
    ANSWER_TOKENS,
    FIRST_TOKEN,
    GENERATED,
    NEXT_TOKEN,
    PROMPT_TOKENS,
    PROMPTED,
    TOKEN_OF_REQUEST,
)

_QUEUES = tuple(
    name for kind in server_kinds() for name, counter in kind.requests.items() if counter == Counter.QUEUE_SECONDS
)
_LATENCIES = tuple(family for kind in server_kinds() for family in kind.latencies)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """What was counted between two pages; None is what is not exported.

    Attributes:
        start, end: Unix seconds.
        ended: requests that were answered.
        request_seconds: time of these.
        gap_seconds, gaps: time between tokens, of all requests, and how many such times there are.
        paced_seconds, paced: mean time between tokens of each request that ended, added up, and how many these are.
        first_seconds, firsts: time to first tokens, and how many.
        queued_seconds: time in the engine's own queue, of requests that left it.
        prompt_tokens, answer_tokens: tokens that were read and generated.
        iterations: how many there were.
        before, after: the gauges at both ends.

    """

    start: float
    end: float
    ended: float
    request_seconds: float | None
    gap_seconds: float | None
    gaps: float | None
    paced_seconds: float | None
    paced: float | None
    first_seconds: float | None
    firsts: float | None
    queued_seconds: float | None
    prompt_tokens: float | None
    answer_tokens: float | None
    iterations: float | None
    before: EngineSample | None
    after: EngineSample | None

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSizes:
    """What a histogram observed, as tokens of prompts or seconds of requests: how often, the mean, and the squared
    coefficient of variation, None where too few buckets show it.
    """

    events: float
    mean: float
    scv: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHistory:
    """An engine over the span.

    Attributes:
        steps: from page to page, those left out between which a counter fell.
        reads: its gauges, or its iterations where these are listed; None where neither is exported.
        prompt, answer: tokens of prompts and answers; None where no histogram says it.
        latency: seconds of requests.

    """

    steps: Sequence[EngineStep]
    reads: EngineReads | None
    prompt: ObservedSizes | None
    answer: ObservedSizes | None
    latency: ObservedSizes | None


def engine_history(view: ModelView) -> EngineHistory:
    """Return what the pages inside the span say of the model's engine; empty where they say nothing."""
    found = engine_of(view)
    reads = None if isinstance(found, Missing) else found
    samples = {sample.at: sample for sample in reads.samples} if reads else {}
    answered = {(step.start, step.end): step.values for step in view.steps(METRICS)}
    steps = []
    for first, last in pairwise(pages_inside(view)):
        start, end = view.server.snapshots[first][0], view.server.snapshots[last][0]
        values = answered.get((start, end))
        if values is None or end <= start:
            continue
        counted = _Counted(view, first, last)
        before, after = samples.get(start), samples.get(end)
        steps.append(
            EngineStep(
                start=start,
                end=end,
                ended=values.get(Counter.SUCCESS, 0.0),
                request_seconds=values.get(Counter.REQUEST_SECONDS),
                gap_seconds=counted.first_of(token_names(NEXT_TOKEN), "_sum"),
                gaps=counted.first_of(token_names(NEXT_TOKEN), "_count"),
                paced_seconds=counted.first_of(token_names(TOKEN_OF_REQUEST), "_sum"),
                paced=counted.first_of(token_names(TOKEN_OF_REQUEST), "_count"),
                first_seconds=counted.first_of(token_names(FIRST_TOKEN), "_sum"),
                firsts=counted.first_of(token_names(FIRST_TOKEN), "_count"),
                queued_seconds=counted.first_of(_QUEUES),
                prompt_tokens=counted.first_of(token_names(PROMPTED)),
                answer_tokens=counted.first_of(token_names(GENERATED)),
                iterations=_iterations(before, after),
                before=before,
                after=after,
            )
        )
    return EngineHistory(
        steps=steps,
        reads=reads,
        prompt=_observed(view, token_names(PROMPT_TOKENS)),
        answer=_observed(view, token_names(ANSWER_TOKENS)),
        latency=_observed(view, _LATENCIES),
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counters of a model from one page to another, and those of the server in front of it."""

    view: ModelView
    first: int
    last: int

    def first_of(self, families: Sequence[str], suffix: str = "") -> float | None:
        """Return the increase of the first family that the pages have, the server's own before those in front of it.

        None where they have none, and of one that fell.
        """
        for pages in self.pages():
            for family in families:
                before, after = (_value(page, self.view.model, family + suffix) for page in pages)
                if before is not None and after is not None:
                    return after - before if after >= before else None
        return None

    def pages(self) -> Iterator[tuple[Snapshot, Snapshot]]:
        """Yield both pages of the server, and those of the one in front of it that were read next to them."""
        own = self.view.server.snapshots
        ends = (own[self.first], own[self.last])
        yield ends[0][2], ends[1][2]
        front = self.view.server.front
        if front is not None and front.snapshots:
            near = [min(front.snapshots, key=lambda one: abs(one[0] - at)) for at, _, _ in ends]
            if all(abs(one[0] - at) < _SAME_ROUND for one, (at, _, _) in zip(near, ends, strict=True)):
                yield near[0][2], near[1][2]


# Reads of two servers in one round: their order differs by less than a second or two.
_SAME_ROUND = 2.0


def _value(page: Snapshot, model: str | None, name: str) -> float | None:
    """Return one family's value of the model, summed over its other labels; None when it is not there."""
    found = [value for series, value in series_named(page, name) if model in _models(series)]
    return sum(found) if found else None


def _models(series: Series) -> tuple[str | None, str | None]:
    return series.labels.get(names.MODEL), series.labels.get(names.SERVE_MODEL)


def _iterations(before: EngineSample | None, after: EngineSample | None) -> float | None:
    if before is None or after is None or before.iterations is None or after.iterations is None:
        return None
    return after.iterations - before.iterations if after.iterations >= before.iterations else None


def _observed(view: ModelView, families: Sequence[str]) -> ObservedSizes | None:
    """Return what the first of these histograms observed in the span."""
    inside = pages_inside(view)
    if len(inside) < 2:
        return None
    counted = _Counted(view, inside[0], inside[-1])
    for family in families:
        total, events = counted.first_of((family,), "_sum"), counted.first_of((family,), "_count")
        if total is not None and events:
            found = (_scv(before, after, view.model, f"{family}_bucket") for before, after in counted.pages())
            scv = next((one for one in found if one is not None), None)
            return ObservedSizes(events=events, mean=total / events, scv=scv)
    return None


# Fewer buckets with something in them show how wide these are, and not how lengths vary.
_FEWEST_BUCKETS = 4


def _scv(before: Snapshot, after: Snapshot, model: str | None, name: str) -> float | None:
    """Return the squared coefficient of variation of what a histogram observed, spread evenly over each bucket."""
    then, now = _buckets(before, model, name), _buckets(after, model, name)
    bounds = sorted(now)
    at_most = [max(now[bound] - then.get(bound, 0.0), 0.0) for bound in bounds]
    parts = [
        (lower, upper, more - fewer)
        for (lower, fewer), (upper, more) in pairwise(zip([0.0, *bounds], [0.0, *at_most], strict=True))
        if more > fewer
    ]
    if len(parts) < _FEWEST_BUCKETS or any(math.isinf(upper) for _, upper, _ in parts):
        return None
    count = sum(part for _, _, part in parts)
    middle = sum((lower + upper) / 2 * part for lower, upper, part in parts) / count
    square = sum((lower**2 + lower * upper + upper**2) / 3 * part for lower, upper, part in parts) / count
    return max(square / middle**2 - 1.0, 0.0) if middle > 0 else None


def _buckets(page: Snapshot, model: str | None, name: str) -> dict[float, float]:
    """Return a histogram's counts by their upper bound, summed over its other labels."""
    found: dict[float, float] = {}
    for series, value in series_named(page, name):
        text = series.labels.get("le", "") if model in _models(series) else ""
        bound = math.inf if text == "+Inf" else number(text)
        if bound is not None:
            found[bound] = found.get(bound, 0.0) + value
    return found
