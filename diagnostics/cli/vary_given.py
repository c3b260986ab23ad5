"""`--vary safety.instance_group.count=1..4`: which values of a setting a search may choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diagnostics.cli.changes_given import model_and_path, value_of
from diagnostics.cli.sweep_given import values_given
from diagnostics.errors import UsageError
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue


def vary_given(texts: Iterable[str], models: Sequence[str]) -> Mapping[str, Mapping[str, Sequence[SettingValue]]]:
    """Return the values by model and setting.

    Raises:
        UsageError: a text is not MODEL.SETTING=VALUES, names what is not there, or names a setting twice.

    """
    found: dict[str, dict[str, Sequence[SettingValue]]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        model, path = model_and_path(name, models, "--vary")
        of_model = found.setdefault(model, {})
        if path in of_model:
            raise UsageError(f"{model}.{path} is varied twice", where="--vary", hint="give all its values at once")
        of_model[path] = [_checked(model, path, value) for value in values_given(listed, "--vary", fewest=1)]
    return found


def _checked(model: str, path: str, text: str) -> SettingValue:
    value = value_of(path, text)
    ConfigChange(model=model, settings=(Setting(path=path, value=value),))
    return value
