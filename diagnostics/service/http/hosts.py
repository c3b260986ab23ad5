"""Which names the door answers to. A page of a stranger, whose name was made to lead here, must not read ours."""

from __future__ import annotations

from urllib.parse import urlsplit

from diagnostics.errors import UsageError
from diagnostics.service.listening import Listen, ip_of
from diagnostics.settings.tree import WebSettings

_ALWAYS = frozenset({"localhost", "127.0.0.1", "::1"})


class Hosts:
    """The names of `web.listen_address`, `web.external_url` and `web.allowed_hosts`, and those of this machine."""

    def __init__(self, web: WebSettings, listen: Listen) -> None:
        """Take the settings apart.

        Raises:
            UsageError: the external URL is none.

        """
        external = _external(web.external_url)
        names = {*_ALWAYS, listen.host, external or "", *(_host(name) or name for name in web.allowed_hosts)}
        self._names = {name.lower().rstrip(".") for name in names if name}
        self._origin = _origin(web.external_url)
        # An address cannot be made to lead elsewhere: where all of the machine's are listened at, each may be named.
        self._addresses = listen.everywhere

    def knows(self, header: str) -> bool:
        """Return whether a `Host` header names the door."""
        host = _host(header)
        if host is None:
            return False
        return host.rstrip(".") in self._names or (self._addresses and ip_of(host) is not None)

    def same_origin(self, origin: str, host: str, scheme: str) -> bool:
        """Return whether an `Origin` header names the page that the door itself shows."""
        return _origin(origin) is not None and _origin(origin) in (_origin(f"{scheme}://{host}"), self._origin)


def _host(header: str) -> str | None:
    """Return the host of `host[:port]` in lower case, IPv6 without brackets; None where it is none."""
    if not header or any(sign in header for sign in "/?#@\\") or not header.isprintable():
        return None
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _origin(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _external(url: str) -> str | None:
    if not url:
        return None
    if _origin(url) is None:
        raise UsageError(f"{url!r} is no URL", where="web.external_url", hint="write it as in https://diag.example.org")
    return urlsplit(url).hostname
