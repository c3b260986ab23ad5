"""Alerts on the monitoring itself: silence must not look like health."""

from __future__ import annotations

from diagnostics import names
from diagnostics.checks.check import Severity
from diagnostics.gen.alert import Alert, Situation, label, series
from diagnostics.gen.recordings import IS_TRITON, SERVER, by
from diagnostics.gen.rule_tests import plain_situations, samples
from diagnostics.gen.symptoms import PREFIX
from diagnostics.signals.signal import Missing

META_GROUP = "meta"
TARGET_UP = "diag_target_up"
CHECK_UNKNOWN = "diag_check_unknown"
# Reasons that pass by themselves: an idle model, a short window, a restart.
_PASSING = (Missing.IDLE, Missing.TOO_FEW_EVENTS, Missing.RESET)

PART_FAULTS = "diag_part_faults"
# The others need nobody, or have an alert of their own: a clock that was set, full connections, late verdicts.
_ACTIONABLE = ("deliver", "discovery", "fleet", "history", "reload")
EVALUATION_LATE = "diag_evaluation_late"
_SERVER = {"server": "triton-0:8002"}
_DEPLOYMENT = {"deployment": "chat"}
_FAULT, _OTHER_FAULT = {"part": "history"}, {"part": "evaluate"}
_UNDECIDED = {"check": "gpu-saturated", "reason": Missing.NOT_EXPORTED.value}
_PASSES = {"check": "gpu-saturated", "reason": Missing.IDLE.value}

META_ALERTS = (
    Alert(
        id="check-undecided",
        group=META_GROUP,
        expr=f'sum by (check, reason) ({CHECK_UNKNOWN}{{reason!~"{"|".join(_PASSING)}"}}) > 0',
        hold_minutes=60,
        severity="info",
        summary=f"{label('check')} could not be decided for an hour: {label('reason')}",
        description="What this check needs is switched off, closed or not exported, so nothing would report its "
        "cause. The blind spots of diag explain name what to switch on.",
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
        group=META_GROUP,
        expr=f"{TARGET_UP} == 0",
        hold_minutes=5,
        severity="warning",
        summary=f"{label('server')} cannot be read",
        description="No diagnosis of this server is possible, and alerts of Prometheus on its findings have ended. "
        "Incidents that are open stay open until it can be read again. "
        f"What fails: diag explain {label('server')}",
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
        id="evaluation-late",
        group=META_GROUP,
        expr=f"{EVALUATION_LATE} == 1",
        hold_minutes=2,
        severity="warning",
        summary=f"{label('deployment')} is read, but its verdict is late",
        description="New data waits for a verdict for longer than 3 intervals, and than 30 s. Until one is made, "
        "incidents neither open nor end, and what the service shows is of before.",
        situations=plain_situations(
            _DEPLOYMENT,
            series(EVALUATION_LATE, _DEPLOYMENT),
            hold=2,
            bad="1",
            good="0",
            silent={series(EVALUATION_LATE, _DEPLOYMENT): "0"},
        ),
    ),
    Alert(
        id="service-fault",
        group=META_GROUP,
        expr=f'{PART_FAULTS}{{part=~"{"|".join(_ACTIONABLE)}"}} > 0',
        hold_minutes=15,
        severity="warning",
        summary=f"a part of the diagnosis service fails: {label('part')}",
        description="Verdicts go on, but something around them does not work: alerts are not delivered, the history is "
        "not written, servers are not found, or new settings are not in use. The service's page says what, and why.",
        situations=plain_situations(
            _FAULT,
            series(PART_FAULTS, _FAULT),
            hold=15,
            bad="1",
            good="0",
            silent={series(PART_FAULTS, _FAULT): "0", series(PART_FAULTS, _OTHER_FAULT): "1"},
        ),
    ),
    Alert(
        id="targets-absent",
        group=META_GROUP,
        expr=f"absent({TARGET_UP})",
        hold_minutes=10,
        severity="warning",
        summary="no Triton is being diagnosed",
        description="Prometheus has no sample of the diagnosis service: it is down, is not scraped, or watches no "
        "server. Until then, no other alert of this set can fire.",
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


SCRAPING_GROUP = "scraping"
_TARGET = {"instance": "triton-0:8002", "job": "triton"}
_MODEL = {**_TARGET, "model": "safety", "version": "1"}
_OTHER_MODEL = {**_MODEL, "model": "embedder"}
_ON_SERVER = f"on ({', '.join(SERVER)})"
_UP, _OTHER_UP = series("up", _TARGET), series("up", {"instance": "node-0:9100", "job": "node"})
_SUCCESS, _OTHER_SUCCESS = series(names.REQUEST_SUCCESS, _MODEL), series(names.REQUEST_SUCCESS, _OTHER_MODEL)
_DURATION = series(names.REQUEST_DURATION, _MODEL)
_WATCHED = series(TARGET_UP, {"server": "triton-0:8002", "deployment": "chat"})
_OTHER_WATCHED = series(TARGET_UP, {"server": "triton-1:8002", "deployment": "chat"})
_VERSIONLESS = f"group without ({names.GPU_UUID}, {names.VERSION})"
_VANISHED = {name: text for name, text in _MODEL.items() if name != names.VERSION}
# How long a vanished model is remembered, and with it how long its alert lasts.
_REMEMBERED_MINUTES = 60
_AS_INSTANCE = f'label_replace({TARGET_UP}, "instance", "$1", "server", "(.+)")'


_SERVER_DOWN = Alert(
    id="server-down",
    group=SCRAPING_GROUP,
    prefix=PREFIX,
    expr=f"up == 0 and {_ON_SERVER} {IS_TRITON}",
    hold_minutes=5,
    severity=Severity.WARNING.value,
    summary=f"Triton at {label('instance')} cannot be scraped",
    description="This target exported Triton's metrics and no longer answers. Until then, no alert on a symptom can "
    "fire for it.",
    situations=(
        Situation(
            title="fires for a Triton that stops answering, however long it lasts, and for no other target",
            series={
                _UP: f"1x4 {samples('0', 40)}",
                _SUCCESS: f"{samples('5', 4)} stale",
                _OTHER_UP: samples("0", 45),
            },
            expect=((9, ()), (10, (_TARGET,)), (45, (_TARGET,))),
        ),
        Situation(
            title="stays silent when the target is taken away",
            series={_UP: "1x4 0x2 stale", _SUCCESS: "5x4 stale"},
            expect=((30, ()),),
        ),
        Situation(
            title="resolves when it answers again",
            series={_UP: "1x4 0x7 1x9", _SUCCESS: "5x4 stale _x7 0x9"},
            expect=((11, (_TARGET,)), (15, ())),
        ),
    ),
)
_SERVERS_ABSENT = Alert(
    id="servers-absent",
    group=SCRAPING_GROUP,
    prefix=PREFIX,
    expr=f"absent({IS_TRITON})",
    hold_minutes=15,
    severity=Severity.WARNING.value,
    summary="Prometheus scrapes no Triton",
    description="No target exports Triton's metrics: the job is missing, its selector matches nothing, or the port "
    "of the metrics is closed. No alert on a symptom can fire.",
    situations=(
        Situation(
            title="fires when no target is a Triton",
            series={_OTHER_UP: samples("1", 20)},
            expect=((14, ()), (15, ({},))),
        ),
        Situation(
            title="stays silent while one is, even if it is down",
            series={_UP: f"1x4 {samples('0', 20)}", _SUCCESS: "5x4 stale"},
            expect=((24, ()),),
        ),
        Situation(
            title="resolves when one is scraped",
            series={_UP: f"{samples('_', 16)} 1x3", _SUCCESS: f"{samples('_', 16)} 0x3"},
            expect=((16, ({},)), (19, ())),
        ),
    ),
)
_MODEL_VANISHED = Alert(
    id="model-vanished",
    group=SCRAPING_GROUP,
    prefix=PREFIX,
    expr=f"({_VERSIONLESS} ({names.REQUEST_SUCCESS} offset {_REMEMBERED_MINUTES}m) "
    f"unless {_VERSIONLESS} ({names.REQUEST_SUCCESS})) and {_ON_SERVER} (up == 1)",
    hold_minutes=10,
    severity=Severity.WARNING.value,
    summary=f"{label('model')} is no longer on {label('instance')}",
    description="The server answers and had this model an hour ago; now it has no version of it. Requests to it fail "
    "with an unknown model, which Triton counts nowhere.",
    situations=(
        Situation(
            title="fires for a model that is gone from a server that answers, and ends after an hour",
            series={
                _UP: samples("1", 150),
                _SUCCESS: f"{samples('5', 60)} stale",
                _OTHER_SUCCESS: samples("5", 150),
            },
            expect=((70, ()), (71, (_VANISHED,)), (119, (_VANISHED,)), (140, ())),
        ),
        Situation(
            title="stays silent for another version of the same model, and for a server that is down",
            series={
                _UP: samples("1", 90),
                _SUCCESS: f"{samples('5', 60)} stale",
                series(names.REQUEST_SUCCESS, {**_MODEL, "version": "2"}): f"{samples('_', 60)} {samples('0', 30)}",
                series("up", {**_TARGET, "instance": "triton-1:8002"}): f"{samples('1', 60)} {samples('0', 30)}",
                series(names.REQUEST_SUCCESS, {**_MODEL, "instance": "triton-1:8002"}): f"{samples('5', 60)} stale",
            },
            expect=((85, ()),),
        ),
        Situation(
            title="resolves when it is loaded again",
            series={_UP: samples("1", 90), _SUCCESS: f"{samples('5', 60)} stale {samples('_', 15)} 0x10"},
            expect=((73, (_VANISHED,)), (83, ())),
        ),
    ),
)
_NOT_DIAGNOSED = Alert(
    id="not-diagnosed",
    group=SCRAPING_GROUP,
    prefix=PREFIX,
    expr=f"({IS_TRITON} unless on (instance) {_AS_INSTANCE}) and on () group({TARGET_UP})",
    hold_minutes=60,
    severity=Severity.INFO.value,
    summary=f"Triton at {label('instance')} is scraped, but not diagnosed",
    description="The diagnosis service watches other servers and not this one, or under another name. Triton's own "
    "metrics hold neither instance counts nor sizes of batches, so causes here go unnamed.",
    situations=(
        Situation(
            title="fires for a Triton that the service does not watch",
            series={_UP: samples("1", 65), _SUCCESS: samples("5", 65), _OTHER_WATCHED: samples("1", 65)},
            expect=((59, ()), (60, (_TARGET,))),
        ),
        Situation(
            title="stays silent where the service watches it",
            series={_UP: samples("1", 65), _SUCCESS: samples("5", 65), _WATCHED: samples("0", 65)},
            expect=((65, ()),),
        ),
        Situation(
            title="stays silent where there is no service",
            series={_UP: samples("1", 65), _SUCCESS: samples("5", 65)},
            expect=((65, ()),),
        ),
        Situation(
            title="resolves when the service watches it",
            series={
                _UP: samples("1", 70),
                _SUCCESS: samples("5", 70),
                _OTHER_WATCHED: samples("1", 70),
                _WATCHED: f"{samples('_', 62)} 1x7",
            },
            expect=((62, (_TARGET,)), (66, ())),
        ),
    ),
)
_WITHOUT_DURATIONS = Alert(
    id="without-statistics",
    group=SCRAPING_GROUP,
    prefix=PREFIX,
    expr=f"group {by(SERVER)} ({names.REQUEST_SUCCESS}) unless group {by(SERVER)} ({names.REQUEST_DURATION})",
    hold_minutes=15,
    severity=Severity.INFO.value,
    summary=f"Triton at {label('instance')} counts no durations",
    description="The server runs with `--metrics-config counter_latencies=false`, which removes the durations and "
    "leaves all its other counters at 0. Its models cannot be diagnosed.",
    situations=(
        Situation(
            title="fires for a server that exports requests without durations",
            series={_UP: samples("1", 20), _SUCCESS: samples("0", 20)},
            expect=((14, ()), (15, (_TARGET,))),
        ),
        Situation(
            title="stays silent where durations are counted, even without traffic",
            series={_UP: samples("1", 20), _SUCCESS: samples("0", 20), _DURATION: samples("0", 20)},
            expect=((20, ()),),
        ),
        Situation(
            title="resolves when they are",
            series={_UP: samples("1", 20), _SUCCESS: samples("0", 20), _DURATION: f"{samples('_', 15)} 0x4"},
            expect=((15, (_TARGET,)), (18, ())),
        ),
    ),
)

SCRAPING_ALERTS = (_SERVER_DOWN, _SERVERS_ABSENT, _MODEL_VANISHED, _NOT_DIAGNOSED, _WITHOUT_DURATIONS)
