"""What counters say of one model from read to read, as far as it shows whether another model calls it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import fmean, pvariance

from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.orchestration import LOCKSTEP, direct_steps, parting_of
from diagnostics.signals.settings import one_request_per_execution
from diagnostics.window.counters import sum_steps
from diagnostics.window.view import STATISTICS, Counter, CounterStep, ModelView

Span = tuple[float, float]
Steps = Mapping[Span, float]

_COMPUTE = (Counter.INPUT_SECONDS, Counter.INFER_SECONDS, Counter.OUTPUT_SECONDS)
# Standard deviations by which a mean of so many reads lies off by chance once in 700 times.
_DEVIATIONS = 3.0
# Totals that lie further apart than so many times what the order of calls explains differ by calls of another time.
_FAR = 3.0
# Independent times have the sum of their variances between them; of a time that is made of the other, a part is left.
_REST = 0.25


@dataclass(frozen=True, kw_only=True)
class CallCounters:
    """One model's or ensemble's counters from read to read.

    Attributes:
        model: its name.
        source: where they are from.
        requests: requests completed, whoever sent them.
        direct: those of them that no ensemble sent.
        executions: executions.
        held: seconds that executions held instances; empty where that is not known.
        seconds: request seconds, from arrival to answer, of those that no ensemble sent.
        waits: mean seconds of a request in queues.
        before: requests completed before the first step; None where the counters began again in the window.
        members: the models that it calls as an ensemble.

    """

    model: str
    source: str
    requests: Steps
    direct: Steps
    executions: Steps
    held: Steps
    seconds: Steps
    waits: float
    before: float | None
    members: tuple[str, ...]

    @cached_property
    def count(self) -> float:
        """Requests in all."""
        return sum(self.requests.values())

    @cached_property
    def calls(self) -> float:
        """Requests in all that no ensemble sent."""
        return sum(self.direct.values())

    @cached_property
    def busy(self) -> float:
        """Seconds that executions held instances, in all."""
        return sum(self.held.values())

    @cached_property
    def execution(self) -> float:
        """Mean seconds of an execution; 0 where that is not known."""
        executions = sum(self.executions.values())
        return self.busy / executions if executions > 0 else 0.0

    @cached_property
    def request(self) -> float:
        """Mean seconds of a request that no ensemble sent."""
        return sum(self.seconds.values()) / self.calls if self.calls > 0 else 0.0


def row_of(view: ModelView, source: str) -> CallCounters | None:
    """Return what a source says of a model from read to read; None where it did nothing, or was not read."""
    steps = view.steps(source)
    requests = _sums(steps, lambda step: step.values.get(Counter.SUCCESS, 0.0))
    if sum(requests.values()) <= 0:
        return None
    ensemble = view.server.graph.ensembles.get(view.model or "")
    direct = direct_steps(view, view.model or "", source)
    whole = _sums(steps, lambda step: step.values.get(Counter.REQUEST_SECONDS, 0.0))
    return CallCounters(
        model=view.model or "",
        source=source,
        requests=requests,
        direct={span: max(count, 0.0) for span, count in direct.items()},
        executions=_sums(steps, lambda step: step.values.get(Counter.EXECUTIONS, 0.0)),
        held={} if ensemble else _held(steps, source),
        seconds={
            span: seconds * max(direct.get(span, 0.0), 0.0) / requests[span] if requests[span] else 0.0
            for span, seconds in whole.items()
        },
        waits=_waits(view, source)
        if ensemble is None
        else sum(_waits(view.beside(m), source) for m in ensemble.models()),
        before=_before(view, source),
        members=ensemble.models() if ensemble else (),
    )


def in_step(caller: Steps, called: CallCounters, times: int) -> bool | None:
    """Return whether a model is called so many times per request or execution of another, read for read.

    None where too few reads show it, and the totals are as close as those of calls in step.
    """
    parting = parting_of([caller, {span: count / times for span, count in called.direct.items()}], called.source)
    if parting.value is not None:
        return parting.value <= LOCKSTEP
    most, least = sum(caller.values()), called.calls / times
    return None if abs(most - least) <= LOCKSTEP * math.sqrt(2 * min(most, least)) else False


def runs_ahead(caller: CallCounters, called: CallCounters, times: int) -> bool | None:
    """Return whether completed calls run ahead of the caller's requests as calls from inside an execution do.

    Such a call ends before its caller: at a read the called model has completed as many calls more as there are
    executions behind their call, on average `rate × time from its end to the execution's` (Little's law). Of a client
    that calls one model after the other, the first has completed more: by those in the second and, where the caller is
    the second, in its queue, too. So it is, less its own requests, where the client calls both at once. None where too
    few are under way to separate one from the other, or the totals differ by more than any of that.
    """
    if caller.before is None or called.before is None or caller.requests.keys() != called.direct.keys():
        return None
    spans = sorted(caller.requests)
    if spans[-1][1] <= spans[0][0]:
        return None  # the clock was set back
    rate, reads = times * caller.count / (spans[-1][1] - spans[0][0]), len(spans) + 1
    more = (called.direct[span] - times * caller.requests[span] for span in spans)
    mean = fmean(accumulate(more, initial=called.before - times * caller.before))
    # On average: of calls from inside at most, of both at once, and of a client that calls it first and afterwards.
    inside = rate * max(caller.execution - called.request, 0.0)
    together, first, then = (
        inside + rate * caller.waits,
        rate * (caller.execution + caller.waits),
        -rate * called.request,
    )
    if then / 2 <= mean <= (inside + together) / 2:
        reported = _differs(mean, together, together / reads) and _differs(mean, then, -then / reads)
        return True if reported else None
    own, other = (0.0, then) if mean < 0 else (inside, first)
    return False if abs(mean) <= _FAR * abs(other) + 2 and _differs(mean, own, abs(other) / reads) else None


def lengthens_with(caller: CallCounters, seconds: Steps) -> bool:
    """Return whether a request's executions take longer from read to read as calls of so many seconds do."""
    spans = [span for span in seconds if caller.held[span] > 0 and caller.requests.get(span, 0.0) > 0]
    if len(spans) < FEWEST_EVENTS:
        return False
    each = [caller.held[span] / caller.requests[span] for span in spans]
    rest = [one - seconds[span] for one, span in zip(each, spans, strict=True)]
    return pvariance(each) > 0 and pvariance(rest) <= _REST * pvariance(each)


def _differs(mean: float, other: float, variance: float) -> bool:
    """Return whether a mean is not another by chance. How many are under way at a read varies by as many (Poisson)."""
    return abs(mean - other) >= _DEVIATIONS * math.sqrt(variance)


def _sums(steps: Sequence[CounterStep], value: Callable[[CounterStep], float]) -> dict[Span, float]:
    found: dict[Span, float] = {}
    for step in steps:
        key = (step.start, step.end)
        found[key] = found.get(key, 0.0) + value(step)
    return found


def _held(steps: Sequence[CounterStep], source: str) -> dict[Span, float]:
    """Return the seconds that executions held instances; none where batches of several requests hide them."""
    if source == STATISTICS:
        return _sums(steps, lambda step: sum(batch.seconds for batch in step.batches.values()))
    delta = sum_steps(steps)
    if not one_request_per_execution(delta):
        return {}
    return _sums(steps, lambda step: sum(step.values.get(part, 0.0) for part in _COMPUTE))


def _waits(view: ModelView, source: str) -> float:
    delta = view.delta(source)
    count = delta.values.get(Counter.SUCCESS, 0.0) if delta else 0.0
    return delta.values.get(Counter.QUEUE_SECONDS, 0.0) / count if delta and count > 0 else 0.0


def _before(view: ModelView, source: str) -> float | None:
    """Return what all versions completed before the span; None where counters began again, or reads are doubted."""
    total = 0.0
    for table in view.tables(source):
        if table.first is None or table.resets or table.doubted_at:
            return None
        earlier = (step for step in table.steps if step.end <= view.start)
        total += table.first.values.get(Counter.SUCCESS, 0.0) + sum(
            step.values.get(Counter.SUCCESS, 0.0) for step in earlier
        )
    return total
