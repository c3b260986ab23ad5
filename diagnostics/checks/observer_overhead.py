"""Monitoring may use a part of the capacity it measures.

## Looks for
Latency summaries are on, a model answers hundreds of requests per second, and executions take a millisecond or two. Or
nearly every request is traced at such a rate.

## Means
Each summary keeps a sliding window per model and quantile under a lock. Each traced request writes a dozen timestamps
and an export. On small, busy models that is a share of the work: up to a third in one report.

## Rules out
- Slow models: bookkeeping is a tiny part of their requests' time.
- Counters and gauges: they cost next to nothing.

## Do
1. Leave summaries off (`--metrics-config summary_latencies=false`, the default). Take averages from counters and tails
   from sampled traces.
2. Trace one request in a hundred (`--trace-config rate=100`).
3. Compare before and after (`diag diff BEFORE AFTER` of two recordings): this is a suspicion, not a measurement.

## Sources
server#8561 (summaries cost a third of the throughput of ResNet50). Measured: a 24.10 server with `rate=1` at about
2,000 requests/s on two cores ended with signal 11.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.traces import TRACED_SHARE
from diagnostics.signals.triton import REQUEST_RATE, SUMMARIES
from diagnostics.units import Unit

HOT = Limit(
    value=500.0,
    unit=Unit.PER_SECOND,
    because="below 500 requests a second even 100 µs of bookkeeping each are a twentieth of one core",
)
SMALL = Limit(
    value=0.005,
    unit=Unit.SECONDS,
    because="of an execution of more than 5 ms (ResNet50 took about that) 100 µs are under 2 %",
)
NEARLY_ALL = Limit(value=0.5, unit=Unit.RATIO, because="half of all requests is no sample but the traffic itself")
CHECK = Check(
    layer=Layer.TELEMETRY,
    scope=Scope.MODEL,
    limits={"request_rate": HOT, "execution_seconds": SMALL, "traced_share": NEARLY_ALL},
    severity=Severity.INFO,
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    rate = ledger.read(REQUEST_RATE, subject)
    if rate.missing is Missing.IDLE:
        return Quiet(because="the model is idle")
    if not ledger.at_least(REQUEST_RATE, subject, HOT):
        return Quiet(because="too few requests for bookkeeping to matter")
    if not ledger.at_most(EXECUTION_SECONDS, subject, SMALL):
        return Quiet(because="executions are long compared to any bookkeeping")
    summaries = bool(ledger.read(SUMMARIES, subject).value)
    traced = ledger.read(TRACED_SHARE, subject)
    often = traced.value is not None and ledger.as_alternative().compare(TRACED_SHARE.name, traced, NEARLY_ALL)
    if not summaries and not often:
        return Quiet(because="neither summaries nor most traces are on")
    what = " and ".join(
        word for word, on_ in (("latency summaries", summaries), ("traces of most requests", often)) if on_
    )
    return Fires(
        summary=f"{what} are kept of {subject.model} at {Unit.PER_SECOND.show(rate.value)}: they may take a part of "
        "its throughput",
        suggestion=Suggestion(
            text="trace one request in a hundred (POST /v2/trace/setting with trace_rate 100, at once) and switch "
            "summaries off (--metrics-config summary_latencies=false, at a restart), then compare throughput"
        ),
    )


_HOT = {REQUEST_RATE: 3000, EXECUTION_SECONDS: 0.001, SUMMARIES: 1}
CASES = (
    CheckCase.fires("on summaries of a small hot model", _HOT),
    CheckCase.fires("on traces of nearly all requests", {**_HOT, SUMMARIES: 0, TRACED_SHARE: 1.0}),
    CheckCase.quiet("when summaries are off", {**_HOT, SUMMARIES: 0}),
    CheckCase.quiet("at a low rate", {**_HOT, REQUEST_RATE: 20}),
    CheckCase.quiet("on long executions", {**_HOT, EXECUTION_SECONDS: 0.05}),
    CheckCase.unknown(
        "when execution times were not read", {k: v for k, v in _HOT.items() if k is not EXECUTION_SECONDS}
    ),
)
