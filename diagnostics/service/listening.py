"""Where the listener is: an address, and a socket bound to it."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from diagnostics.errors import CollectError, UsageError, reason_of
from diagnostics.settings.addresses import is_host

LISTEN_SETTING = "web.listen_address"
_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """host and port; an empty host is every address of the machine."""

    host: str
    port: int

    @property
    def everywhere(self) -> bool:
        """Whether it is every address of the machine."""
        return self.host in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it; a name that is not localhost counts as not."""
        if self.host in _LOOPBACK_NAMES:
            return True
        address = ip_of(self.host)
        return address is not None and address.is_loopback

    def overlaps(self, other: Listen) -> bool:
        """Whether both cannot be listened at; a port that the system chooses is always another."""
        alike = self.host == other.host or self.everywhere or other.everywhere
        return alike and self.port == other.port != 0

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that `host` spells; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def parse_listen(text: str, setting: str) -> Listen:
    """Return the host and port of `host:port`, `[::1]:port` or `:port`.

    Raises:
        UsageError: it is none; `setting` is where it was written.

    """
    hint = "write host:port, as in 127.0.0.1:9177 or [::1]:9177"
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError(f"{text!r} is no address", where=setting, hint=hint) from None
    if port is None or not is_host(host) or parts.path or parts.query or parts.fragment or "@" in text:
        raise UsageError(f"{text!r} is no address with a port", where=setting, hint=hint)
    return Listen(host=host, port=port)


def bound(listen: Listen, setting: str) -> socket.socket:
    """Return a socket that is bound to the address; port 0 takes a free one.

    Raises:
        UsageError: the host is not known.
        CollectError: the address is in use, or not this machine's.

    """
    try:
        found = socket.getaddrinfo(listen.host or None, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise UsageError(f"the host {listen.host!r} is not known", where=setting) from None
    # Where both are there, the one of IPv6 takes connections of both.
    found.sort(key=lambda one: one[0] != socket.AF_INET6 and not listen.host)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        try:
            return _socket(family, kind, protocol, address, both=not listen.host)
        except OSError as error:
            if number == len(found):
                hint = f"free it, or choose another: {setting}"
                raise CollectError(f"cannot listen: {reason_of(error)}", where=str(listen), hint=hint) from None
    raise CollectError("cannot listen: it has no address", where=str(listen))


def _socket(family: int, kind: int, protocol: int, address: tuple[Any, ...], *, both: bool) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def require_auth_if_public(listen: Listen, setting: str, *, requested: bool, allowed: bool) -> None:
    """Refuse to let in whoever reaches this machine.

    Args:
        listen: where.
        setting: where that was written.
        requested: whether anyone is asked for a password, a token or a certificate.
        allowed: whether that nobody is asked is wanted.

    Raises:
        UsageError: other machines reach the address, nobody is asked, and that is not wanted.

    """
    if not (listen.loopback or requested or allowed):
        hint = "set web.config_file with users or web.bearer_token_file, or web.allow_unauthenticated = true"
        raise UsageError(f"{listen} lets everyone in who reaches this machine", where=setting, hint=hint)
