"""`--set`, `--rate`, `--vary` and `--sweep`: which settings and which load, as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from diagnostics.errors import UsageError
from diagnostics.evidence.evidence import Evidence
from diagnostics.names import ENSEMBLE_PLATFORM
from diagnostics.signals.signal import Scope, Subject
from diagnostics.spelling import among, close_to
from diagnostics.tuning.changes import KNOWN_PATHS, ConfigChange, Setting, SettingValue, WarmupChange, known_path
from diagnostics.units import DECIMAL, WHOLE, parse_whole

_RATE = re.compile(rf"\s*({DECIMAL})\s*(x|/s)\s*")
_HINT = "write it like 2x or 40/s"


def rate_factor(text: str, measured: float | None, where: str = "--rate") -> float:
    """Return by what the arrivals are multiplied.

    Args:
        text: a multiple of what arrives (`2x`), or requests per second to the entry (`40/s`).
        measured: requests per second that arrive at the entry; None where that is unknown.
        where: the option that is to be named in an error.

    Raises:
        UsageError: the text is neither, or a rate was given and none was measured.

    """
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]) > 0:
        raise UsageError(f"cannot read the rate {text!r}", where=where, hint=_HINT)
    number, unit = float(match[1]), match[2]
    if unit == "x":
        return number
    if not measured:
        raise UsageError("no rate was measured that could be scaled to it", where=where, hint="look at it under load")
    return number / measured


_LENGTH = re.compile(rf"({DECIMAL})(x?)")


def length_factor(text: str, measured: float, where: str) -> float:
    """Return by what lengths are multiplied: a multiple of now (`2x`), or the mean in tokens (`800`).

    Args:
        text: what is given.
        measured: mean tokens now.
        where: the option that is to be named in an error.

    Raises:
        UsageError: the text is neither.

    """
    match = _LENGTH.fullmatch(text.strip())
    if match is None or not float(match[1]) > 0:
        raise UsageError(f"cannot read the length {text!r}", where=where, hint="write it like 2x or 800")
    return float(match[1]) if match[2] else float(match[1]) / measured


_SIZES = "dynamic_batching.preferred_batch_size"
_TEXTS = ("parameters.", "version_policy")
# What people call settings, beside misspelling them.
_CALLED = {
    **dict.fromkeys(("instances", "replicas", "instance_count"), "instance_group.count"),
    **dict.fromkeys(("delay", "window", "queue_delay"), "dynamic_batching.max_queue_delay_microseconds"),
    **dict.fromkeys(("batch", "batch_size", "max_batch"), "max_batch_size"),
}
_MICROSECONDS = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000}
_DURATION = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?) ?({'|'.join(_MICROSECONDS)})")
_INTEGER = re.compile(rf"[+-]?{WHOLE}")


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


def as_given(change: ConfigChange) -> tuple[str, ...]:
    """Return a change as `changes_given` reads it, a text per setting."""
    return tuple(f"{change.model}.{one.path}={_text_of(one.value)}" for one in change.settings)


def _text_of(value: SettingValue) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case WarmupChange():
            return ",".join(map(str, value.batch_sizes))
        case _:
            return str(value)


def model_and_path(text: str, models: Sequence[str], option: str) -> tuple[str, str]:
    """Return the model and the setting that `text` names; a model's name may hold dots, so the longest one counts.

    Raises:
        UsageError: there is no such model or setting.

    """
    text = text.strip()
    if text.startswith("engine.") and len(models) == 1:
        text = f"{models[0]}.{text}"  # there is only one that it can be of
    model = max((one for one in models if text.startswith(f"{one}.")), key=len, default=None)
    if model is None and text.startswith("engine."):
        hint = f"name the model whose engine it is: MODEL.{text}; models are {', '.join(models)}"
        raise UsageError(f"{text} is of no model", where=option, hint=hint)
    if text in models:
        raise UsageError(f"{text!r} names a model, but no setting of it", where=option, hint=_EXAMPLE)
    if model is None:
        name = _named(text)
        raise UsageError(f"there is no model {name!r}", where=option, hint=among(name, models, "models"))
    path = known_path(text[len(model) + 1 :])
    if path not in KNOWN_PATHS and not path.startswith("parameters."):
        known = sorted(KNOWN_PATHS)
        near = _meant(path) or close_to(path, known, most=1)
        hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}"
        raise UsageError(f"there is no setting {path!r} of {model}", where=option, hint=hint)
    return model, path


def _meant(path: str) -> list[str]:
    """Return the setting that people or servers call so: `max_num_seqs` is the engine's `max_batch_size`."""
    engine = known_path(f"engine.{path}")
    return [_CALLED[path]] if path in _CALLED else [engine] if engine in KNOWN_PATHS else []


def value_of(path: str, text: str) -> SettingValue:
    """Return what `text` means for a setting; `none` removes it. Whether it fits is for `ConfigChange` to say."""
    text = text.strip()
    if text.lower() == "none":
        return None
    if path.startswith(_TEXTS):
        return text
    if path.endswith("_microseconds") and (match := _DURATION.fullmatch(text)):
        return round(float(match[1]) * _MICROSECONDS[match[2]])
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


# More than a terminal shows at once, and a minute of simulation.
MOST_VALUES = 40
_NUMBER = rf"\s*+({DECIMAL})\s*+"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(x|/s)?\s*+(?::{_NUMBER})?(x|/s)?\s*+")
_EXAMPLES = "write it like safety.instance_group.count=1..8, =1,2,4, rate=10..60/s:10, rate=1x,2x or clients=1..64:8"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepGiven:
    """What is varied.

    Attributes:
        kind: a setting, or the load: the arrivals' rate, or the number of clients of a closed loop.
        name: as it is shown.
        values: the texts of the values, as given.
        changes: the change that each value means; empty for a load.

    """

    kind: Literal["setting", "rate", "clients"]
    name: str
    values: tuple[str, ...]
    changes: tuple[ConfigChange, ...] = ()


def sweep_given(text: str, models: Sequence[str]) -> SweepGiven:
    """Return what a sweep varies.

    Raises:
        UsageError: the text is not NAME=VALUES, the values are too many, or there is no such model or setting.

    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise UsageError(f"cannot read the sweep {text!r}", where="--sweep", hint=_EXAMPLES)
    values = values_given(listed)
    if name.strip() == "rate" or name.strip() == "clients":
        return SweepGiven(kind="rate" if name.strip() == "rate" else "clients", name=name.strip(), values=values)
    model, path = model_and_path(name, models, "--sweep")
    if all(parse_whole(value) is not None for value in values):
        values = tuple(sorted(values, key=int))
    settings = [Setting(path=path, value=value_of(path, value)) for value in values]
    changes = tuple(ConfigChange(model=model, settings=(setting,)) for setting in settings)
    return SweepGiven(kind="setting", name=f"{model}.{path}", values=values, changes=changes)


def values_given(text: str, where: str = "--sweep", fewest: int = 2) -> tuple[str, ...]:
    """Return the texts of the values in `1..8`, `0..400:100`, `1,2,4`, or of load `10..60/s:10`.

    Raises:
        UsageError: there are fewer than `fewest`, or more than MOST_VALUES; it names the option `where`.

    """
    match = _RANGE.fullmatch(text)
    found = (
        _ranged(match, where)
        if match
        else tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    )
    if len(found) < fewest:
        many = "several values" if fewest > 1 else "a value"
        raise UsageError(f"cannot read {many} in {text!r}", where=where, hint=_EXAMPLES)
    if len(found) > MOST_VALUES:
        hint = f"give a step, as in 1..64:8; {MOST_VALUES} values at most"
        raise UsageError(f"{len(found)} values are too many", where=where, hint=hint)
    unit = next((u for u in ("/s", "x") if found[-1].endswith(u)), "")
    return tuple(value if value.endswith(unit) else value + unit for value in found)


def _ranged(match: re.Match[str], where: str) -> tuple[str, ...]:
    first, last = Decimal(match[1]), Decimal(match[2])
    step = Decimal(match[4]) if match[4] else Decimal(1)
    if step <= 0 or last < first:
        raise UsageError(f"{match[0].strip()!r} holds no value", where=where, hint=_EXAMPLES)
    count = int((last - first) / step) + 1
    if count > MOST_VALUES:
        hint = f"give a larger step than {step}; {MOST_VALUES} values at most"
        raise UsageError(f"{count} values are too many", where=where, hint=hint)
    unit = match[3] or match[5] or ""
    return tuple(f"{(first + step * number).normalize():f}{unit}" for number in range(count))
