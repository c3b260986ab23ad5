"""Explaining a server on demand: which may be asked for, and what a few rounds of it show."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.diagnosis.explanation import Explanation, explain_window
from diagnostics.diagnosis.proof import validated
from diagnostics.errors import CollectError, DiagError, UsageError
from diagnostics.service.listening import ip_of
from diagnostics.service.state import TargetState
from diagnostics.window.window import window_of
from diagnostics.wire.records import Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.address import Address, parse_address
from exporters.sources.triton import TritonServer, discover

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Seconds between two rounds, and the longest that one read may take.
PAUSE = 1.0
_ONE_READ = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe showed.

    Attributes:
        explanation: None when the server could not be read.
        took: seconds of reading.
        error: why there is no explanation; empty when there is one.
        deployment: of a server that is watched.
        server: its name; None where the explanation is of nothing else.

    """

    explanation: Explanation | None
    took: float
    error: str = ""
    deployment: str | None = None
    server: str | None = None


def watched(target: str, targets: Mapping[str, TargetState]) -> TargetState | None:
    """Return the server that is watched anyway and is meant by `target`: its URL, `host:port` of it, or its name."""
    if target in targets:
        return targets[target]
    wanted = parse_address(target)
    for one in targets.values():
        if one.server == target or _same(wanted, parse_address(one.url)):
            return one
    return None


def _same(one: Address, other: Address) -> bool:
    return (one.host.lower(), one.port) == (other.host.lower(), other.port)


def pinned(target: str, allowed: Sequence[Network]) -> str:
    """Return the URL of a server in an allowed network, its name replaced by the address that was looked at.

    A name could lead elsewhere the next time it is asked for; only one under TLS stays, as its certificate binds it.

    Raises:
        UsageError: the target is no address, holds credentials, or is in no allowed network.
        CollectError: its name is not known.

    """
    address = parse_address(target)
    if address.user is not None:
        raise UsageError("a target with credentials is not asked for", where="target")
    hint = "watch it ([[server]]), or list its network in probe.allowed_networks"
    found = _addresses(address.host) if allowed else []
    if not found or not all(_within(one, allowed) for one in found):
        raise UsageError("is neither watched nor in an allowed network", where=str(address), hint=hint)
    return str(address if address.secure else replace(address, host=found[0]))


def _addresses(host: str) -> list[str]:
    if ip_of(host) is not None:
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CollectError("host name not found", where=host) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _within(host: str, allowed: Iterable[Network]) -> bool:
    ip = ip_of(host)
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip is not None and any(ip in network for network in allowed)


def probe(url: str, seconds: float, stopped: threading.Event) -> Probed:
    """Read a server for `seconds`, and return what that shows; sent without any credential."""
    begun = time.monotonic()
    elsewhere = "a probe has none, so name the server in the settings, with bearer_token_file or basic_auth_file"
    options = SourceOptions(timeout=min(_ONE_READ, seconds / 2), credentials_by=elsewhere)
    try:
        server = discover(url, options)
    except DiagError as error:
        return Probed(explanation=None, took=time.monotonic() - begun, error=str(error))
    try:
        scrapes = _rounds(server, begun + seconds, stopped)
    finally:
        server.close()
    found = validated(explain_window(window_of(scrapes), blind_spots=server.blind_spots), simulate=False)
    return Probed(explanation=found, took=time.monotonic() - begun)


def _rounds(server: TritonServer, until: float, stopped: threading.Event) -> list[Scrape]:
    """Return rounds until steady second `until`; at least one."""
    scrapes: list[Scrape] = []
    while True:
        begun = time.monotonic()
        scrapes += server.round()
        now = time.monotonic()
        # A round that would not end in time is not begun.
        if max(now, begun + PAUSE) + (now - begun) > until or stopped.wait(max(0.0, begun + PAUSE - now)):
            return scrapes
