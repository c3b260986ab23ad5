"""Requests above a time limit, from what does not count each of them: traces, quantiles, averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.traces import ALL_TRACED
from diagnostics.slo.chance import share_interval
from diagnostics.slo.tally import Tally, total
from diagnostics.window.points import Counter
from diagnostics.window.steps import CounterStep
from diagnostics.window.window import ServerWindow

TRACES, SUMMARY, AVERAGES = "traces", "summary", "averages"
# By how much of all requests Triton's quantiles may be off: its defaults (core, metric model reporter); those that a
# user chose have an error of the user's, which is not exported: the largest of the defaults is assumed.
_ERRORS = {0.5: 0.05, 0.9: 0.01, 0.95: 0.001, 0.99: 0.001, 0.999: 0.001}
_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Batch:
    """What was completed in one step between two reads."""

    at: float
    requests: float
    seconds: float


def batches(steps: Sequence[CounterStep]) -> list[Batch]:
    """Return what each step completed."""
    return [
        Batch(step.end, step.values.get(Counter.SUCCESS, 0.0), step.values.get(Counter.REQUEST_SECONDS, 0.0))
        for step in steps
        if step.values.get(Counter.SUCCESS, 0.0) > 0
    ]


def from_averages(done: Sequence[Batch], limit: float, *, whole: bool = True) -> Tally:
    """Return the bounds that the mean of each step allows: how many took longer than `limit` seconds.

    At most, by Markov's inequality, P(X > t) <= E(X) / t: of n requests that took S seconds together at most S / t
    took longer than t. At least, by its reverse, P(X > t) >= (E(X) - t) / (B - t) where no request takes longer than
    B; as none takes longer than all together, B = S, it is one where the mean is above the limit, else none
    (Mitzenmacher and Upfal, "Probability and Computing", 3.1). Both hold for any distribution; `bad` is the least.

    Args:
        done: requests and their seconds, step by step.
        limit: seconds.
        whole: whether the seconds are what the limit is about; else they only hold it, and there is no least.

    """
    return total(
        Tally(
            total=one.requests,
            bad=(least := 1.0 if whole and one.seconds > limit * one.requests else 0.0),
            low=least,
            high=max(least, min(one.requests, float(int(one.seconds / limit)))),
            source=AVERAGES,
        )
        for one in done
    )


def from_traces(times: Sequence[float], completed: float, limit: float) -> Tally | None:
    """Return what the seconds of traced requests say of all that were completed; None when they are too few to.

    Where all are traced each is counted. A sample gives Wilson's interval of the share, as if it was drawn without
    regard to how long requests took: a collector that keeps slow traces only makes it too high.
    """
    if len(times) < FEWEST_EVENTS or completed < len(times) * ALL_TRACED:
        return None
    bad = float(sum(1 for seconds in times if seconds > limit))
    if len(times) >= ALL_TRACED * completed:
        unseen = max(completed - len(times), 0.0)
        return Tally(total=completed, bad=min(bad, completed), low=bad, high=bad + unseen, source=TRACES)
    low, high = share_interval(bad, len(times))
    return Tally(
        total=completed, bad=bad / len(times) * completed, low=low * completed, high=high * completed, source=TRACES
    )


def from_summary(server: ServerWindow, done: Sequence[Batch], model: str, version: str, limit: float) -> Tally | None:
    """Return what Triton's quantiles of request time allow; None when the server keeps none.

    A quantile q at or below the limit says that at most 1 - q of the requests took longer, one above it that at least
    1 - q did, give or take the error that Triton computes it with. Quantiles are of the minute before each read, so
    that this holds for spans of several minutes; for shorter ones it is an estimate.
    """
    quantiles = {q: _quantile(server, model, version, q) for q in _exported(server, model)}
    found = [_summed(one, {q: points.get(one.at) for q, points in quantiles.items()}, limit) for one in done]
    if not found or all(one is None for one in found):
        return None
    return total(
        one or Tally(total=batch.requests, bad=0.0, low=0.0, high=batch.requests, source=SUMMARY)
        for one, batch in zip(found, done, strict=True)
    )


def _summed(done: Batch, values: dict[float, float | None], limit: float) -> Tally | None:
    known = {q: value * _MICROSECOND for q, value in values.items() if value is not None and isfinite(value)}
    if not known:
        return None
    below = max((q - _ERRORS.get(q, 0.05) for q, value in known.items() if value <= limit), default=0.0)
    above = min((q + _ERRORS.get(q, 0.05) for q, value in known.items() if value > limit), default=1.0)
    low, high = (max(1.0 - min(share, 1.0), 0.0) * done.requests for share in (above, below))
    middle = (min(low, high) + high) / 2 if above < 1.0 else low
    return Tally(total=done.requests, bad=middle, low=min(low, high), high=high, source=SUMMARY)


def _exported(server: ServerWindow, model: str) -> set[float]:
    if not server.snapshots:
        return set()
    layout = server.snapshots[-1][2].layout
    texts = {
        layout.series[slot].labels.get(names.QUANTILE, "")
        for slot in layout.by_name.get(names.REQUEST_SUMMARY, ())
        if layout.series[slot].labels.get(names.MODEL) == model
    }
    return {float(text) for text in texts if text.replace(".", "", 1).isdigit()}


def _quantile(server: ServerWindow, model: str, version: str, quantile: float) -> dict[float, float]:
    labels = {names.MODEL: model, names.VERSION: version, names.QUANTILE: f"{quantile:g}"}
    return dict(server.gauge(names.REQUEST_SUMMARY, labels))
