"""`--set MODEL.PATH=VALUE` as changes of the models that a server serves."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from diagnostics.cli.near_matches import among
from diagnostics.errors import UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.names import ENSEMBLE_PLATFORM
from diagnostics.signals.subject import Scope, Subject
from diagnostics.tuning.changes import KNOWN_PATHS, ConfigChange, Setting, SettingValue, WarmupChange

_SIZES = "dynamic_batching.preferred_batch_size"
_TEXTS = ("parameters.", "version_policy")
_INTEGER = re.compile(r"[+-]?\d+")


def models_on(evidence: Evidence, server: str) -> Sequence[str]:
    """Return the models of a server that have instances, in a stable order: ensembles have none."""
    found = [on.model for on in evidence.subjects(Scope.MODEL) if on.server == server and on.model]
    return [model for model in dict.fromkeys(found) if not _is_ensemble(evidence, server, model)]


def changes_given(texts: Iterable[str], models: Sequence[str]) -> tuple[ConfigChange, ...]:
    """Return a change per model, its settings in the order in which they are given.

    Raises:
        UsageError: a text is not MODEL.PATH=VALUE, or there is no such model, setting or value; known ones are named.

    """
    found: dict[str, list[Setting]] = {}
    for text in texts:
        where, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r} is not MODEL.SETTING=VALUE", where="--set", hint=_EXAMPLE)
        model, path = model_and_path(where, models, "--set")
        found.setdefault(model, []).append(Setting(path=path, value=value_of(path, value)))
    return tuple(ConfigChange(model=model, settings=tuple(settings)) for model, settings in found.items())


_EXAMPLE = "write it like safety.instance_group.count=3"


def model_and_path(text: str, models: Sequence[str], option: str) -> tuple[str, str]:
    """Return the model and the setting that `text` names; a model's name may hold dots, so the longest one counts.

    Raises:
        UsageError: there is no such model or setting.

    """
    text = text.strip()
    model = max((one for one in models if text.startswith(f"{one}.")), key=len, default=None)
    if model is None:
        name = _named(text)
        raise UsageError(f"there is no model {name!r}", where=option, hint=among(name, models, "models"))
    path = text[len(model) + 1 :]
    if path not in KNOWN_PATHS and not path.startswith("parameters."):
        known = sorted(KNOWN_PATHS)
        ends = [one for one in known if path and one.endswith(f".{path}")]
        near = ends or difflib.get_close_matches(path, known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}"
        raise UsageError(f"there is no setting {path!r} of {model}", where=option, hint=hint)
    return model, path


def value_of(path: str, text: str) -> SettingValue:
    """Return what `text` means for a setting; `none` removes it. Whether it fits is for `ConfigChange` to say."""
    text = text.strip()
    if text.lower() == "none":
        return None
    if path.startswith(_TEXTS):
        return text
    if path in (_SIZES, "model_warmup"):
        sizes = _integers(text)
        return WarmupChange(batch_sizes=sizes) if path == "model_warmup" and sizes else sizes or text
    return text.upper() if path.endswith("timeout_action") else _scalar(text)


def _scalar(text: str) -> SettingValue:
    words: Mapping[str, bool] = {"true": True, "on": True, "false": False, "off": False}
    if text.lower() in words:
        return words[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return text


def _integers(text: str) -> tuple[int, ...]:
    parts = text.strip("[] ").split(",")
    return tuple(int(part) for part in parts) if all(_INTEGER.fullmatch(part.strip()) for part in parts) else ()


def _named(text: str) -> str:
    """Return the part of the text that is probably meant as the model: all before a known setting's first word."""
    heads = {path.partition(".")[0] for path in KNOWN_PATHS}
    words = text.split(".")
    end = next((at for at, word in enumerate(words) if at and word in heads), 1)
    return ".".join(words[:end])


def _is_ensemble(evidence: Evidence, server: str, model: str) -> bool:
    config = evidence.config(Subject(server=server, model=model))
    return config is not None and config.platform == ENSEMBLE_PLATFORM
