"""What a user may write for a server, taken apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from diagnostics.errors import UsageError
from diagnostics.settings.addresses import is_host, shown

SCHEMES = ("http", "https", "grpc", "grpcs")
DEFAULT_HTTP_PORT = 8000
"""Of a Triton that is named without a port."""
DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 8001, "grpcs": 8001}
_ENCODED = "write / ? # and @ of a password as %2F %3F %23 and %40"
_FORMS = "give http://host:8000, host:8000, grpc://host:8001 or http://host:8002/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server as given: never holds a password where it could be shown.

    Attributes:
        scheme: one of `http`, `https`, `grpc`, `grpcs`.
        host: name or IP address, IPv6 without brackets.
        port: the port; None where neither port nor scheme was given.
        path: the path without a trailing slash; empty for none.
        user: `name:password` of the URL, or None.

    """

    scheme: str
    host: str
    port: int | None
    path: str = ""
    user: str | None = field(default=None, repr=False)

    @property
    def secure(self) -> bool:
        return self.scheme in ("https", "grpcs")

    def netloc(self, port: int | None = None) -> str:
        """Return `host:port`, IPv6 in brackets: what Prometheus shows as `instance`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port if port is None else port}"

    def __str__(self) -> str:
        netloc = self.netloc() if self.port is not None else self.host
        return f"{self.scheme}://{netloc}{self.path}"


def parse_address(text: str) -> Address:
    """Return the parts of `text`; a missing scheme means http.

    Raises:
        UsageError: it is no address; the message shows no password.

    """
    if "://" not in text:
        return _address(_split(f"http://{text}"), text, bare=True)
    parts = _split(text)
    if parts.scheme.startswith("prometheus+"):
        raise UsageError("is a store, not a server", where=safe(text), hint="ask it with diag explain")
    if parts.scheme not in SCHEMES:
        raise UsageError(f"the scheme {parts.scheme}:// is not known", where=safe(text), hint=_FORMS)
    return _address(parts, text, bare=False)


def _split(text: str) -> SplitResult:
    if not text.isprintable() or " " in text:
        raise UsageError("holds blanks or control characters", where=safe(text), hint=_FORMS)
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        # Its own words repeat what it was given.
        what = "its port is not a number from 1 to 65535" if "port" in str(error).lower() else "is no address"
        raise UsageError(what, where=safe(text), hint=_FORMS) from None
    return parts


def _address(parts: SplitResult, text: str, *, bare: bool) -> Address:
    if not parts.hostname:
        raise UsageError("names no host", where=safe(text) or "''", hint=_FORMS)
    if not is_host(parts.hostname):
        raise UsageError("its host is no name", where=safe(text), hint=_FORMS)
    if "@" in parts.path:
        raise UsageError("holds an @ after the host", where=safe(text), hint=_ENCODED)
    if parts.query or parts.fragment:
        raise UsageError("holds a ? or a #: what follows is not sent", where=safe(text), hint=_FORMS)
    if parts.port == 0:
        raise UsageError("port 0 cannot be read", where=safe(text), hint=_FORMS)
    default = None if bare else DEFAULT_PORTS[parts.scheme]
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=parts.port or default,
        path=parts.path.rstrip("/"),
        user=_user(parts),
    )


def _user(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def safe(text: str) -> str:
    """Return an address as it may be shown: without credentials, cut, control characters as `?`."""
    return "".join(c if c.isprintable() else "?" for c in shown(text))[:120]
