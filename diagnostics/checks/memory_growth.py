"""The server's memory keeps growing after it should have settled.

## Looks for
In a window of ten minutes or more, the memory of the server's processes keeps growing. It grows in every sixth of the
window after the first third. The growth would fill the machine within days.

## Means
Something keeps its data. Typical causes: abandoned client connections, raw tensors before a slow stage, a leak in a
backend or Python model. When the machine runs out of memory, the kernel kills the server.

## Rules out
- Settling: allocators, caches and pools grow at first and stop. Only lasting growth counts.
- GPU memory that stays in use after a load: frameworks keep their pools.
- More models: a load adds a step, not a slope.

## Do
1. Find the process that grows: the server itself, or the stub of one Python model (`ps -o pid,rss,args`).
2. The server: limit what waits between stages (`max_inflight_requests`), reuse client connections, or try `LD_PRELOAD`
   with jemalloc or tcmalloc.
3. A stub: check what its `execute` keeps.
4. Until then, restart replicas in turn before the reported date.

## Sources
server#6781 (7.5 to 16.3 GB in six days, clients that reconnect). server#8597 (raw frames in front of a slow stage).
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.host import MEMORY_GROWTH, MEMORY_LEFT, SERVER_MEMORY
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.units import Unit

DAY = 86_400.0
SLOW = Limit(
    value=0.01 / 3600,
    unit=Unit.RATIO,
    because="under 1 % of its size in an hour is within what a settled allocator still moves by",
)
GROWN = Limit(
    value=0.01,
    unit=Unit.RATIO,
    because="a settled allocator moves up and down within 1 % of its size; what grew by more, through every sixth of a "
    "window however long, has not settled",
)
SOON = Limit(
    value=7 * DAY,
    unit=Unit.SECONDS,
    because="servers are redeployed within a week or so; what would take longer never comes to it",
)
CHECK = Check(
    layer=Layer.HOST,
    scope=Scope.SERVER,
    limits={"growth_per_second": SLOW, "growth_in_window": GROWN, "time_left": SOON},
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one server."""
    growth = ledger.read(MEMORY_GROWTH, subject)
    if growth.missing is Missing.TOO_FEW_EVENTS:
        return Quiet(because="the window is too short to tell growth from settling")
    rate, size = ledger.need(MEMORY_GROWTH, subject), ledger.need(SERVER_MEMORY, subject)
    share = Reading.of(rate / size if size > 0 else 0.0, Unit.RATIO, growth.source, estimated=growth.estimated)
    grown = Reading.of(
        (share.value or 0.0) * (growth.span or 0.0), Unit.RATIO, growth.source, estimated=share.estimated
    )
    either = ledger.as_alternative()
    if not either.compare("growth_per_second", share, SLOW) and not either.compare("growth_in_window", grown, GROWN):
        return Quiet(because="memory does not go on growing")
    left = Reading.of(ledger.need(MEMORY_LEFT, subject) / rate, Unit.SECONDS, growth.source, estimated=growth.estimated)
    if not ledger.compare("time_left", left, SOON, at_least=False):
        return Quiet(because="at this pace memory lasts longer than a server does")
    hour = Unit.BYTES.show(rate * 3600)
    return Fires(
        summary=f"the server's memory grows by {hour} an hour and has not settled; what is left lasts about "
        f"{(left.value or 0.0) / 3600:.0f} hours",
        # The gauge that Triton exports is the whole machine's: it may be somebody else who grows.
        severity=Severity.INFO if growth.estimated or (left.value or 0.0) > DAY else Severity.WARNING,
        suggestion=Suggestion(
            text="find the process that grows (the server or one model's stub); limit what waits between stages, and "
            "reuse client connections; until then, restart replicas in turn",
            remedy=Remedy.MITIGATE,
        ),
    )


_GROWS = {MEMORY_GROWTH: 200_000.0, SERVER_MEMORY: 8e9, MEMORY_LEFT: 8e9}
CASES = (
    CheckCase.fires("when the machine is full within the day", _GROWS),
    CheckCase.quiet("when memory has settled", {**_GROWS, MEMORY_GROWTH: 0.0}),
    CheckCase.quiet(
        "when the machine would take months to fill", {**_GROWS, MEMORY_GROWTH: 30_000.0, MEMORY_LEFT: 1e12}
    ),
    CheckCase.unknown("when memory was not seen", {MEMORY_LEFT: 8e9}),
)
