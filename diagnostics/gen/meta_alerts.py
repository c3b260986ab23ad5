"""Alerts on the watching itself: silence must not look like health."""

from __future__ import annotations

from diagnostics.gen.alert import Alert, label, series
from diagnostics.gen.rule_tests import plain_situations
from diagnostics.signals.reading import Missing

GROUP = "meta"
TARGET_UP = "diag_target_up"
CHECK_UNKNOWN = "diag_check_unknown"
# Reasons that pass by themselves: an idle model, a short window, a restart.
_PASSING = (Missing.IDLE, Missing.TOO_FEW_EVENTS, Missing.RESET)

_SERVER = {"server": "triton-0:8002"}
_UNDECIDED = {"check": "gpu-saturated", "reason": Missing.NOT_EXPORTED.value}
_PASSES = {"check": "gpu-saturated", "reason": Missing.IDLE.value}

META_ALERTS = (
    Alert(
        id="check-undecided",
        group=GROUP,
        expr=f'sum by (check, reason) ({CHECK_UNKNOWN}{{reason!~"{"|".join(_PASSING)}"}}) > 0',
        hold_minutes=60,
        severity="info",
        summary=f"{label('check')} could not be decided for an hour: {label('reason')}",
        description="What this check needs is switched off, closed or not exported, so its cause would go unnamed. "
        "The list of blind spots of diag explain says what to switch on.",
        situations=plain_situations(
            _UNDECIDED,
            series(CHECK_UNKNOWN, _UNDECIDED),
            hold=60,
            bad="3",
            good="0",
            silent={series(CHECK_UNKNOWN, _UNDECIDED): "0", series(CHECK_UNKNOWN, _PASSES): "3"},
        ),
    ),
    Alert(
        id="target-down",
        group=GROUP,
        expr=f"{TARGET_UP} == 0",
        hold_minutes=5,
        severity="warning",
        summary=f"{label('server')} cannot be read",
        description="No diagnosis of this server is possible, and its findings have ended. That they are gone does "
        f"not mean that it is well. What fails: diag explain {label('server')}",
        situations=plain_situations(
            _SERVER,
            series(TARGET_UP, _SERVER),
            hold=5,
            bad="0",
            good="1",
            silent={series(TARGET_UP, _SERVER): "1"},
        ),
    ),
    Alert(
        id="targets-absent",
        group=GROUP,
        expr=f"absent({TARGET_UP})",
        hold_minutes=10,
        severity="warning",
        summary="no Triton is being diagnosed",
        description="Prometheus has no sample of the diagnosis service: it is down, is not scraped, or watches no "
        "server. None of the other alerts of this set can fire meanwhile.",
        situations=plain_situations(
            {},
            series(TARGET_UP, _SERVER),
            hold=10,
            bad="_",
            good="1",
            silent={series(TARGET_UP, _SERVER): "0"},
        ),
    ),
)
