"""Alertmanager's configuration as an example: routes by severity, one notification per server, causes before effects.

What inhibits what is `diagnosis.link.CAUSED_BY` in Alertmanager's terms: the same deployment and server, and the same
model, unless the cause or the consequence is of no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.link import CAUSED_BY
from diagnostics.gen.alert import PREFIX
from diagnostics.gen.symptom import KIND, SYMPTOM
from diagnostics.gen.yaml_text import Tree
from diagnostics.signals.subject import Scope

# The label that tells the service's own alerts from those of Prometheus, which have none of this name.
SENDER = "diag"
_OURS = f'alertname=~"{PREFIX}.+"'
_PLACE = ("deployment", "server")
_SUBJECT = ("check", *_PLACE, "model", "version", "gpu", "ensemble")
_OF_A_MODEL = frozenset({Scope.MODEL})
_OF_NO_MODEL = frozenset({Scope.SERVER, Scope.GPU, Scope.ENSEMBLE})
# Where notifications go is known to nobody but the reader; nothing listens there.
_NOWHERE = "http://127.0.0.1:9/replace-this"


def alertmanager_config(checks: Mapping[str, RegisteredCheck]) -> Tree:
    """Return the whole configuration."""
    return {
        "route": {
            "receiver": "tickets",
            "group_by": list(_PLACE),
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            "routes": [
                {"matchers": ['severity="critical"'], "receiver": "pager", "repeat_interval": "1h"},
                {"matchers": ['severity="info"'], "receiver": "log", "repeat_interval": "1w"},
            ],
        },
        "receivers": [_receiver(name) for name in ("tickets", "pager", "log")],
        "inhibit_rules": [_same_check(), _symptom(), *_causes(checks)],
    }


def _receiver(name: str) -> Tree:
    return {"name": name, "webhook_configs": [{"url": f"{_NOWHERE}/{name}"}]}


def _same_check() -> Tree:
    """The service's alert is earlier and says more than that of the rule on the same check."""
    return _rule([_OURS, f'sender="{SENDER}"'], [_OURS, 'sender=""'], _SUBJECT)


def _symptom() -> Tree:
    """A cause is the answer to the question that a symptom on the same server and model asks."""
    cause = [_OURS, f'severity="{Severity.WARNING.value}"']
    return _rule(cause, [f'{KIND}="{SYMPTOM}"'], ("server", "model"))


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
