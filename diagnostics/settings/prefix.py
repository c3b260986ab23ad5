"""Below which path the service answers, and below which one it is reached: they differ where a proxy strips it.

As Prometheus has it: `web.route_prefix` is the path of `web.external_url` unless it is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from diagnostics.errors import UsageError

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
