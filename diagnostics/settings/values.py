"""Types of settings: what a text may be, and how it is written again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from diagnostics.settings.addresses import names_a_user
from diagnostics.units import parse_duration, parse_size


def _written(parse: Callable[[str], float | None], what: str) -> BeforeValidator:
    """Return what reads a text as a number; `what` says how one is written, for who wrote it otherwise."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        number = parse(value)
        if number is None:
            raise ValueError(f"{value[:100]!r} is not {what}")
        return number

    return BeforeValidator(read)


def show_seconds(seconds: float) -> str:
    """Return seconds as a setting spells them: the largest unit that leaves no remainder."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


# Clocks of the operating system and of databases end not far beyond.
LONGEST = 100 * 365.25 * 86400.0
_NOT_IN_ADDRESSES = re.compile(r"[?#@]")
_NOT_IN_NAMES = re.compile(r"[\s/?#%]")


def _without_credentials(otherwise: str) -> BeforeValidator:
    """Return what refuses a URL with user or password; `otherwise` says what to do instead."""

    def check(value: object) -> object:
        if isinstance(value, str) and names_a_user(value):
            raise ValueError(f"holds credentials, which an address shows: {otherwise}")
        return value

    return BeforeValidator(check)


def _ending(value: str) -> str:
    if sign := _NOT_IN_ADDRESSES.search(value):
        raise ValueError(f"holds a {sign[0]}: what is around it may be a secret, which an address shows")
    return value


def _name(value: str) -> str:
    if not value or not value.isprintable() or _NOT_IN_NAMES.search(value):
        raise ValueError("cannot be a name: leave out blanks, control characters and / ? # %")
    return value


def _within_a_lifetime(seconds: float) -> float:
    if seconds > LONGEST:
        raise ValueError("is longer than 100 years")
    return seconds


def _no_percents(value: object) -> object:
    if isinstance(value, str) and value.rstrip().endswith("%"):
        raise ValueError(f"{value!r} is no number: write 99 % as 0.99")
    return value


# An address is a label of metrics, a name on the page and a field of recordings.
Address = Annotated[str, _without_credentials("put them into basic_auth_file"), AfterValidator(_ending)]
Queried = Annotated[str, _without_credentials("put them into basic_auth_file")]
Posted = Annotated[str, _without_credentials("use bearer_token_file, or put a secret URL into url_file")]
Shown = Annotated[str, _without_credentials("whoever follows a link is asked for them")]
Name = Annotated[str, AfterValidator(_name)]
Seconds = Annotated[
    float,
    _written(parse_duration, "a duration such as 500ms, 15s, 5m or 7d"),
    AfterValidator(_within_a_lifetime),
    PlainSerializer(show_seconds),
]
Share = Annotated[float, BeforeValidator(_no_percents)]
Bytes = Annotated[int, _written(parse_size, "a size such as 4MiB or 10GB"), PlainSerializer(lambda size: f"{size}B")]
