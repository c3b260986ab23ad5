"""All rules: which files they are in, and which of the recorded ones an expression needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diagnostics.gen.alert import Alert, group_name
from diagnostics.gen.recordings import ENGINE_RECORDINGS, MODEL_RECORDINGS, SERVER_RECORDINGS, Recording, expanded
from diagnostics.gen.symptoms import MACHINE_SYMPTOMS, MODEL_SYMPTOMS, PREFIX, SymptomAlert
from diagnostics.gen.yaml_text import Tree

# By file, in the order in which they are to be evaluated.
RECORDINGS: Mapping[str, Sequence[Recording]] = {
    "models": MODEL_RECORDINGS,
    "engines": ENGINE_RECORDINGS,
    "servers": SERVER_RECORDINGS,
}
RECORDED: Mapping[str, Recording] = {one.name: one for group in RECORDINGS.values() for one in group}
SYMPTOMS: Mapping[str, SymptomAlert] = {one.alert.id: one for one in (*MODEL_SYMPTOMS, *MACHINE_SYMPTOMS)}


def alone(expr: str) -> str:
    """Return an expression that means the same in a Prometheus without our recording rules."""
    return expanded(expr, RECORDED)


def files_needed(expr: str) -> tuple[str, ...]:
    """Return the files of recording rules that an expression needs, in their order."""
    return tuple(name for name, group in RECORDINGS.items() if any(one.name in expr for one in group))


def recording_groups() -> dict[str, Tree]:
    """Return the rule group of each file of recording rules."""
    return {
        name: {"name": group_name(PREFIX, name), "rules": [one.rule() for one in group]}
        for name, group in RECORDINGS.items()
    }


def alert_groups(alerts: Sequence[Alert], runbooks: str) -> dict[str, Tree]:
    """Return the rule group of each file of alerts."""
    groups: dict[str, list[Alert]] = {}
    for alert in alerts:
        groups.setdefault(alert.group, []).append(alert)
    return {
        name: {"name": group[0].group_name, "rules": [alert.rule(runbooks) for alert in group]}
        for name, group in groups.items()
    }
