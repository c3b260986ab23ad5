"""Addresses as they may be shown: without what may be a secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from diagnostics.errors import UsageError
from diagnostics.units import parse_duration, parse_size

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")
_AUTHORITY_ENDS = re.compile(r"[/?#]")
_BEHIND = re.compile(r"[?#]")
_URL = re.compile(r"(?<=://)[^\s\"'<>]+")
REDACTED = "[REDACTED]"
"""What stands for a secret, wherever one was."""


def shown(address: str) -> str:
    """Return an address without user, password, query and fragment.

    Everything before the last `@` is taken for a password, with or without a scheme.
    """
    scheme = _SCHEME.match(address)
    start = scheme.end() if scheme else 0
    _, at, place = address[start:].rpartition("@")
    place, *behind = _BEHIND.split(place, maxsplit=1)
    return f"{address[:start]}{f'{REDACTED}@' if at else ''}{place}{f'?{REDACTED}' if behind else ''}"


def without_credentials(text: str) -> str:
    """Return a text without the users and passwords of the URLs that it holds.

    To the last `@` before a blank: passwords hold / and # and @ where nobody encoded them.
    """
    return _URL.sub(lambda found: _hidden(found[0]), text)


def _hidden(behind_scheme: str) -> str:
    _, at, place = behind_scheme.rpartition("@")
    return f"{REDACTED}@{place}" if at else behind_scheme


def names_a_user(address: str) -> bool:
    """Return whether an address names a user before its host, with or without a scheme."""
    scheme = _SCHEME.match(address)
    return "@" in _AUTHORITY_ENDS.split(address[scheme.end() if scheme else 0 :], maxsplit=1)[0]


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


# What means the same decoded and encoded, in HTML and in headers.
_PLAIN = re.compile(r"[A-Za-z0-9._~/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Paths that begin with a slash and do not end with one; empty for none.

    Attributes:
        routes: what the paths of requests begin with as they arrive.
        links: what the paths of links begin with, as browsers see them.

    """

    routes: str = ""
    links: str = ""


def prefix_of(external_url: str, route_prefix: str | None) -> Prefix:
    """Return the prefix that the two settings mean; `route_prefix` None is that it was not given.

    Raises:
        UsageError: one holds signs that would have to be encoded.

    """
    external = _path(urlsplit(external_url).path, "web.external_url")
    if route_prefix is None:
        return Prefix(routes=external, links=external)
    routes = _path(route_prefix, "web.route_prefix")
    return Prefix(routes=routes, links=external if external_url else routes)


def _path(text: str, setting: str) -> str:
    inner = text.strip("/")
    if not _PLAIN.fullmatch(inner) or "//" in inner or {".", ".."} & set(inner.split("/")):
        raise UsageError(f"{text!r} is no path to serve below", where=setting, hint="write it as in /diag")
    return f"/{inner}" if inner else ""
