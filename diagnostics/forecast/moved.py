"""What differs between two windows of one deployment: settings, versions, and whether the load does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.reading import Reading
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.current import change_between, shown_paths
from diagnostics.tuning.settings_diff import SettingChange, changed_settings
from diagnostics.wire.model_config import ModelConfig

# Two standard errors of the two counts: the load is then taken to be another one, and the old one's latency no measure.
_CERTAIN = 2.0
# What comes into play at loading only, when no request is measured.
_WITHOUT_EFFECT = frozenset({"model_warmup", "version_policy"})


def rates_differ(before: Reading, after: Reading) -> bool:
    """Return whether two rates differ by more than counts of independent arrivals do by chance; True where unknown."""
    if before.value is None or after.value is None or not before.events or not after.events:
        return True
    spread = sqrt(before.value**2 / before.events + after.value**2 / after.events)
    return abs(after.value - before.value) > _CERTAIN * spread


def split(
    changes: Iterable[SettingChange], before: Mapping[str, ModelConfig], after: Mapping[str, ModelConfig]
) -> tuple[tuple[ConfigChange, ...], tuple[SettingChange, ...]]:
    """Return the changes of settings whose effect is predicted, and those differences whose effect is not."""
    models = [model for model in before if model in after]
    moved = {
        model: change for model in models if (change := change_between(model, before[model], after[model])) is not None
    }
    known: Mapping[str, frozenset[str]] = {model: shown_paths(change) for model, change in moved.items()}
    rest = [
        one for one in changes if one.path not in known.get(one.model, frozenset()) and one.path not in _WITHOUT_EFFECT
    ]
    return tuple(moved.values()), tuple(rest)


def settings_between(before: Evidence, was: str, after: Evidence, now: str) -> Iterator[SettingChange]:
    """Yield the settings that differ between two servers' models; none of a model whose configuration was not read."""
    for on in before.subjects(Scope.MODEL):
        if on.server == was and on.model and on.version == _first(before, was, on.model):
            other = Subject(server=now, model=on.model)
            yield from changed_settings(on.model, before.config(on), after.config(other))


def _first(evidence: Evidence, server: str, model: str) -> str | None:
    return next(on.version for on in evidence.subjects(Scope.MODEL) if (on.server, on.model) == (server, model))


def versions_between(before: Evidence, was: str, after: Evidence, now: str) -> Iterator[SettingChange]:
    """Yield the models whose working versions differ."""
    then, later = _working(before, was), _working(after, now)
    for model in sorted({*then} & {*later}):
        if then[model] != later[model]:
            yield SettingChange(model=model, path="version", before=then[model], after=later[model])


def _working(evidence: Evidence, server: str) -> dict[str, str]:
    served: dict[str, set[str]] = {}
    for on in evidence.subjects(Scope.MODEL):
        if on.server == server and on.model and evidence.read(REQUESTS, on).value:
            served.setdefault(on.model, set()).add(on.version or "")
    return {model: ", ".join(sorted(versions)) for model, versions in served.items()}
