"""One alert per check. It fires on what the service found, and so needs no threshold of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import Layer, Severity
from diagnostics.diagnosis.link import CAUSED_BY
from diagnostics.gen.alert import PREFIX, Alert, Situation, alert_name, given, label, series, share_of
from diagnostics.gen.rule_tests import fires_and_resolves
from diagnostics.gen.symptoms import KIND, SYMPTOM
from diagnostics.gen.yaml_text import Tree
from diagnostics.signals.signal import Scope

FINDING = "diag_finding"
SHARE_OF_LATENCY = "diag_finding_share_of_latency_ratio"
# What identifies a finding in metrics. Where Prometheus' series has no such label, it is empty and matches the same.
FINDING_LABELS = ("deployment", "check", "server", "model", "version", "gpu", "ensemble")
HOLD_MINUTES = 2
# As long as incidents outlast their findings by default (`incidents.close_after`): near a limit these come and go.
KEEP_MINUTES = 5
# No real id, so that a new check does not change the tests of the others.
_OTHER = "another-check"

_EXAMPLES: Mapping[Scope, Mapping[str, str]] = {
    Scope.SERVER: {"server": "triton-0:8002"},
    Scope.MODEL: {"server": "triton-0:8002", "model": "safety", "version": "1", "ensemble": "chat"},
    Scope.ENSEMBLE: {"server": "triton-0:8002", "ensemble": "chat"},
    Scope.GPU: {"server": "triton-0:8002", "gpu": "GPU-1"},
    Scope.ENTRY: {"server": "triton-0:8002", "ensemble": "chat"},
    Scope.LISTED: {"server": "triton-0:8002", "model": "safety"},
}
_SUBJECTS: Mapping[Scope, str] = {
    Scope.SERVER: label("server"),
    Scope.MODEL: f"{label('model')} on {label('server')}",
    Scope.ENSEMBLE: f"{label('ensemble')} on {label('server')}",
    Scope.GPU: f"GPU {label('gpu')} of {label('server')}",
    Scope.ENTRY: f"{label('ensemble')}{label('model')} on {label('server')}",
    Scope.LISTED: given("model", f"{label('model')} on ") + label("server"),
}

_FIGURE = share_of(SHARE_OF_LATENCY, FINDING_LABELS, "This explains ", " of a request's mean time. ")


def finding_alerts(checks: Iterable[RegisteredCheck]) -> tuple[Alert, ...]:
    """Return the alerts of `checks`, in their order."""
    return tuple(_alert(check) for check in checks)


def _alert(found: RegisteredCheck) -> Alert:
    scope = found.check.scope
    labels = {"check": found.id, **_EXAMPLES[scope]}
    return Alert(
        id=found.id,
        group=found.check.layer.value,
        expr=f"{series(FINDING, {'check': found.id})} == 1",
        hold_minutes=HOLD_MINUTES,
        keep_minutes=KEEP_MINUTES,
        severity=severity(found).value,
        summary=f"{_SUBJECTS[scope]}: {_uncapitalized(found.title)}",
        description=f"{_SUBJECTS[scope]}: {_FIGURE}{_sentence(found.sections()['Means'])} "
        f"Evidence and remedy: diag explain {label('server')}",
        situations=(_situation(labels),),
        share="42%",
    )


def _situation(labels: Mapping[str, str]) -> Situation:
    """Return the series of a finding that ends, beside one too small to act on and one of another check."""
    small, other = {**labels, "server": "triton-1:8002"}, {**labels, "check": _OTHER}
    return fires_and_resolves(
        labels,
        {
            series(FINDING, labels): ("1", "stale"),
            series(FINDING, small): ("0", "0"),
            series(FINDING, other): ("1", "1"),
            series(SHARE_OF_LATENCY, labels): ("0.42", "stale"),
            series(SHARE_OF_LATENCY, small): ("0.01", "0.01"),
            series(SHARE_OF_LATENCY, other): ("0.99", "0.99"),
        },
        hold=HOLD_MINUTES,
        keep=KEEP_MINUTES,
    )


def severity(found: RegisteredCheck) -> Severity:
    """Return its alert's severity: causes are tickets, never pages; what only weakens a diagnosis is for information.

    Pages belong to objectives that burn, whatever the cause.
    """
    quiet = found.check.severity is Severity.INFO or found.check.layer is Layer.TELEMETRY
    return Severity.INFO if quiet else Severity.WARNING


def _sentence(text: str) -> str:
    """Return the first sentence: the runbook holds the rest."""
    return re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


def _uncapitalized(title: str) -> str:
    """Return the title as the rest of a sentence; abbreviations such as `GPU` keep their capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


# The label that separates the service's own alerts from those of Prometheus, which have none of this name.
SENDER = "diag"
_OURS = f'alertname=~"{PREFIX}.+"'
_PLACE = ("deployment", "server")
_SUBJECT = ("check", *_PLACE, "model", "version", "gpu", "ensemble")
_OF_A_MODEL = frozenset({Scope.MODEL})
_OF_NO_MODEL = frozenset({Scope.SERVER, Scope.GPU, Scope.ENSEMBLE})
# Where notifications go is known to nobody but the reader; nothing listens there.
_NOWHERE = "http://127.0.0.1:9/replace-this"


def alertmanager_config(checks: Mapping[str, RegisteredCheck]) -> dict[str, Tree]:
    """Return the whole configuration."""
    return {
        "route": {
            "receiver": "tickets",
            "group_by": list(_PLACE),
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            "routes": [
                # What refuses requests counts none, so no objective burns for it. Its group waits for no other alert.
                {
                    "matchers": [
                        f'alertname="{alert_name("model-unavailable")}"',
                        f'sender="{SENDER}"',
                        'severity="critical"',
                    ],
                    "receiver": "pager",
                    "repeat_interval": "1h",
                },
                # Any other cause is a ticket, however severe; what pages is an objective that burns.
                {"matchers": [f'sender="{SENDER}"', 'severity="critical"'], "receiver": "tickets"},
                {"matchers": ['severity="critical"'], "receiver": "pager", "repeat_interval": "1h"},
                {"matchers": ['severity="info"'], "receiver": "log", "repeat_interval": "1w"},
            ],
        },
        "receivers": [_receiver(name) for name in ("tickets", "pager", "log")],
        "inhibit_rules": [_same_check(), *_symptoms(), *_causes(checks)],
    }


def _receiver(name: str) -> Tree:
    return {"name": name, "webhook_configs": [{"url": f"{_NOWHERE}/{name}"}]}


def _same_check() -> Tree:
    """The service's alert is earlier and says more than that of the rule on the same check."""
    return _rule([_OURS, f'sender="{SENDER}"'], [_OURS, 'sender=""'], _SUBJECT)


def _symptoms() -> Iterator[Tree]:
    """A cause is the answer to the question that a symptom on the same server and model asks."""
    warning = [_OURS, f'severity="{Severity.WARNING.value}"']
    critical = [_OURS, f'sender="{SENDER}"', f'severity="{Severity.CRITICAL.value}"']
    for cause in (warning, critical):
        yield _rule(cause, [f'{KIND}="{SYMPTOM}"'], ("server", "model"))


def _causes(checks: Mapping[str, RegisteredCheck]) -> Iterator[Tree]:
    for consequence, listed in CAUSED_BY.items():
        causes = tuple(cause for cause in listed if cause in checks)
        if consequence not in checks or not causes:
            continue
        target = f'check="{consequence}"'
        models, wide = _split(causes, checks)
        if checks[consequence].check.scope not in _OF_NO_MODEL:
            if models:
                yield _rule([_any(models)], [target], (*_PLACE, "model"))
            if wide:
                yield _rule([_any(wide), 'model=""'], [target], _PLACE)
        if checks[consequence].check.scope not in _OF_A_MODEL:
            yield _rule([_any(causes)], [target, 'model=""'], _PLACE)


def _split(causes: tuple[str, ...], checks: Mapping[str, RegisteredCheck]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the causes that may be of one model, and those that may be of none."""
    scopes = {cause: checks[cause].check.scope for cause in causes}
    return (
        tuple(cause for cause in causes if scopes[cause] not in _OF_NO_MODEL),
        tuple(cause for cause in causes if scopes[cause] not in _OF_A_MODEL),
    )


def _any(checks: tuple[str, ...]) -> str:
    return f'check=~"{"|".join(checks)}"'


def _rule(source: list[str], target: list[str], equal: tuple[str, ...]) -> Tree:
    return {"source_matchers": source, "target_matchers": target, "equal": list(equal)}
