"""Addresses as they may be shown, without what may be a secret; paths below which the service answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from diagnostics.errors import UsageError

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


def is_host(name: str) -> bool:
    """Return whether a name can be looked up: parts of 1 to 63 bytes each (RFC 1035), encoded as IDNA does."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


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
