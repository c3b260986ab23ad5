"""Something holds the GPU's clock down while it works.

## Looks for
NVML gives the clock event reasons at each sample, and the clock against its maximum. Reasons that count: hardware and
thermal slowdown, power brake, and the power cap.

## Means
Executions take longer, at most in proportion: work that waits for memory slows less. Heat and power brake are faults of
cooling or power supply. The power cap is how a full card works. It is a fault only if somebody lowered it.

## Rules out
- An idle card: its clock is low because nothing runs (`idle-clocks`).
- A power cap at the card's own limit: reported for information, as a consequence of load (`gpu-saturated`).
- A clock limit set on purpose (application clocks): not a slowdown.
- Executions or engine iterations that take as long with a free clock: they wait for memory or something else.

## Do
1. `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` names the reason. Heat or hardware slowdown: check fans, airflow and
   inlet temperature, and move load off this node.
2. Power brake: the chassis or rack is short of power. Ask who runs it.
3. A lowered cap: restore the card's default (`sudo nvidia-smi -pl WATTS`), if the supply allows it.
4. At its own cap, a card can do no more: use another card, or a smaller or quantised model.

## Sources
NVML, "Clocks event reasons" (`nvmlClocksEventReason…`). Measured on an H200 and an H100 under full load: reason 4
(power cap), 679 to 700 of 700 W. Clocks were at 1,275 to 1,560 of 1,980 MHz.
"""

from __future__ import annotations

from typing import NamedTuple

from diagnostics.checks.check import (
    Check,
    CheckCase,
    Claim,
    Fires,
    Layer,
    Quiet,
    Remedy,
    Severity,
    Suggestion,
)
from diagnostics.checks.entries import lost_to_clock, name_of, time_on, together
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.clock_steps import HELD_BACK_EXCESS_COMPUTE, POWER_CAP_EXCESS_COMPUTE
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import (
    CLOCK_LOST_TO_HARDWARE,
    CLOCK_LOST_TO_POWER_CAP,
    HELD_BACK_BY_HARDWARE,
    HELD_BACK_BY_POWER_CAP,
    POWER_CAP_SHARE,
)
from diagnostics.signals.signal import Reading, Scope, Signal, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

OFTEN = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="a card that is held back in under a tenth of the samples loses less than its requests vary by",
)
LOST = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="a boost clock moves by a few per cent with temperature alone",
)
LOWERED = Limit(
    value=0.9,
    unit=Unit.RATIO,
    because="a limit 10 % below the card's own was set on purpose; smaller differences are vendors' rounding",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={
        "clock_held_back_by_hardware": OFTEN,
        "clock_held_back_by_power_cap": OFTEN,
        "clock_lost": LOST,
        "power_cap_share": LOWERED,
    },
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one GPU."""
    if ledger.as_alternative().at_least(HELD_BACK_BY_HARDWARE, subject, OFTEN):
        return _judge(ledger, subject, _HEAT, "heat or its power supply", Severity.WARNING)
    if not ledger.at_least(HELD_BACK_BY_POWER_CAP, subject, OFTEN):
        return Quiet(because="nothing holds the clock down")
    lowered = ledger.read(POWER_CAP_SHARE, subject)
    either = ledger.as_alternative()
    if lowered.value is not None and either.compare(POWER_CAP_SHARE.name, lowered, LOWERED, at_least=False):
        return _judge(ledger, subject, _CAP, "a lowered power cap", None)
    return _judge(ledger, subject, _CAP, "its power cap", Severity.INFO)


class _Reason(NamedTuple):
    """What holds a clock down: in which share of samples, which share of it, and what was measured with and without."""

    held: Signal
    lost: Signal
    excess: Signal


_HEAT = _Reason(HELD_BACK_BY_HARDWARE, CLOCK_LOST_TO_HARDWARE, HELD_BACK_EXCESS_COMPUTE)
_CAP = _Reason(HELD_BACK_BY_POWER_CAP, CLOCK_LOST_TO_POWER_CAP, POWER_CAP_EXCESS_COMPUTE)


def _judge(ledger: Ledger, subject: Subject, reason: _Reason, what: str, severity: Severity | None) -> Fires | Quiet:
    if not ledger.at_least(reason.lost, subject, LOST):
        return Quiet(because="the clock is hardly lower for it")
    share = ledger.evidence.read(reason.lost, subject)
    each, measured = lost_to_clock(ledger, subject, share, reason.excess)
    saved = together(each.values())
    if measured and (saved.value or 0.0) <= 0:
        return Quiet(because="executions last as long while nothing holds the clock down")
    # What is certain, and met by more than one request in twenty, is in the 95th percentile whatever it does to a mean.
    certain = measured and (saved.low or 0.0) > 0
    now = Reading.of(1.0, Unit.RATIO, saved.source) / ledger.evidence.read(reason.held, subject) if certain else None
    if severity is not Severity.INFO and not ledger.worthwhile("predicted_saving", subject, saved, now):
        return Quiet(because="executions last hardly longer for it")
    most = "" if measured else "up to "
    return Fires(
        summary=f"{what} holds {name_of(subject)}'s clock down by {Unit.RATIO.show(share.value)} on average: "
        f"executions take {most}{Unit.SECONDS.show(saved.value or 0.0)} of a request longer for it",
        claims=tuple(
            Claim(stage=stage.model or "", phase=time_on(ledger, stage)[0], seconds=seconds.value)
            for stage, seconds in each.items()
            if seconds.value is not None and seconds.value > 0
        ),
        saved_seconds=saved.value or 0.0,
        severity=severity,
        suggestion=_suggestion(what),
    )


def _suggestion(what: str) -> Suggestion:
    if "cap" not in what:
        return Suggestion(
            text="move the load off this card and have its cooling and power supply looked at", remedy=Remedy.MITIGATE
        )
    if "lowered" in what:
        return Suggestion(
            text="raise the power limit to the card's default (nvidia-smi -pl, for all that runs on it), if the supply "
            "allows it"
        )
    return Suggestion(
        text="the card works at its own power limit: only another card, or cheaper requests, give more",
        remedy=Remedy.MITIGATE,
    )


_HOT = {
    HELD_BACK_BY_HARDWARE: 0.8,
    CLOCK_LOST_TO_HARDWARE: 0.4,
    HELD_BACK_BY_POWER_CAP: 0.0,
    CLOCK_LOST_TO_POWER_CAP: 0.0,
    POWER_CAP_SHARE: 1.0,
    ON_GPU: 1,
    REQUESTS: 1000,
    COMPUTE_SECONDS: 0.08,
    REQUEST_SECONDS: 0.1,
}
CASES = (
    CheckCase.fires("when heat holds the clock down", _HOT),
    CheckCase.fires(
        "when somebody lowered the power cap",
        {
            **_HOT,
            HELD_BACK_BY_HARDWARE: 0.0,
            HELD_BACK_BY_POWER_CAP: 0.9,
            CLOCK_LOST_TO_POWER_CAP: 0.3,
            POWER_CAP_SHARE: 0.6,
        },
    ),
    CheckCase.quiet("when nothing holds the clock down", {**_HOT, HELD_BACK_BY_HARDWARE: 0.0}),
    CheckCase.quiet("when the clock is hardly lower", {**_HOT, CLOCK_LOST_TO_HARDWARE: 0.01}),
    CheckCase.quiet("when requests spend little time on the card", {**_HOT, COMPUTE_SECONDS: 0.003}),
    CheckCase.unknown(
        "without the driver's reasons", {k: v for k, v in _HOT.items() if k is not HELD_BACK_BY_HARDWARE}
    ),
)
