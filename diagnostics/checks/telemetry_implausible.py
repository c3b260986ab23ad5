"""Counters show impossible values.

## Looks for
Counters jump by more than any request can take, or run backwards without a restart. Or members of an ensemble count far
fewer requests than it completed.

## Means
Do not trust this model's numbers for those reads. Typical causes: an unsigned underflow in the server (1.8e16 µs), a
proxy that mixes two servers, a corrupted scrape. A backend that does not report is another. All other figures leave
these reads out.

## Rules out
- A restart, reload or new version: counters restart from zero, which is normal.
- A response cache, which answers without the members.
- Counters that stand at zero while requests flow (`telemetry-blind-spot`).

## Do
1. Check that the address leads to one server (`getent ahosts HOST`): two behind one name alternate in every scrape.
2. Update Triton if durations underflow. Dashboards should drop increases beyond a server's uptime.
3. Compare with the statistics endpoint: it counts separately from the metrics.

## Sources
server#1985, server#2137 (durations of 1.3e20 µs), server#5296 (members of a parallel ensemble counted wrongly). Triton
core, `infer_stats.cc`: durations are unsigned differences.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.checks.entries import ENOUGH_REQUESTS
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.flow import COUNTED_SHARE, IMPLAUSIBLE_STEPS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.units import Unit

ANY = Limit(value=1, unit=Unit.COUNT, because="a server that counts rightly never shows one")
COUNTED = Limit(
    value=0.8,
    unit=Unit.RATIO,
    because="requests on their way between two reads make a few per cent; a fifth is a counter that misses some",
)
CHECK = Check(
    layer=Layer.TELEMETRY,
    scope=Scope.MODEL,
    limits={"implausible_steps": ANY, "counted_share": COUNTED},
    severity=Severity.INFO,
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if ledger.as_alternative().at_least(IMPLAUSIBLE_STEPS, subject, ANY):
        steps = ledger.need(IMPLAUSIBLE_STEPS, subject)
        return _fires(f"{steps:.0f} reads of {subject.model} show increases that no server makes; they are left out")
    counted = ledger.evidence.read(COUNTED_SHARE, subject)
    if counted.value is None or (counted.events or 0.0) < ENOUGH_REQUESTS.value or counted.value == 0:
        return Quiet(because="every increase is plausible, and no ensemble is there to compare with")
    if ledger.at_most(COUNTED_SHARE, subject, COUNTED):
        share = Unit.RATIO.show(counted.value)
        return _fires(f"{subject.model} counts {share} of the requests that its ensembles completed through it")
    return Quiet(because="every increase is plausible, and members count what their ensembles complete")


def _fires(summary: str) -> Fires:
    return Fires(
        summary=summary,
        suggestion=Suggestion(
            text="check that the address leads to one server, and compare its metrics with its statistics; update "
            "Triton if durations underflow"
        ),
    )


CASES = (
    CheckCase.fires("on a jump that no server makes", {IMPLAUSIBLE_STEPS: 1}),
    CheckCase.fires(
        "on a member that counts half of its ensemble's requests", {IMPLAUSIBLE_STEPS: 0, COUNTED_SHARE: 0.5}
    ),
    CheckCase.quiet("when members count what their ensembles complete", {IMPLAUSIBLE_STEPS: 0, COUNTED_SHARE: 1.0}),
    CheckCase.quiet("without an ensemble", {IMPLAUSIBLE_STEPS: 0}),
    CheckCase.unknown("when nothing was read", {}),
)
