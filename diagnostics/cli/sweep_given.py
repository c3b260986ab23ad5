"""`--sweep safety.instance_group.count=1..8`, `--sweep rate=10..60/s:10`: what is varied, and its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from diagnostics.cli.changes_given import model_and_path, value_of
from diagnostics.errors import UsageError
from diagnostics.tuning.changes import ConfigChange, Setting

# More than a terminal shows at once, and a minute of simulation.
MOST_VALUES = 40
_NUMBER = r"\s*+(\d+(?:\.\d+)?)\s*+"
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
    if all(value.isdecimal() for value in values):
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
