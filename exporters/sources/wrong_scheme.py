"""Whether a port speaks TLS where plain HTTP was written, or the other way round."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace

from exporters.sources.address import Address

_OTHER = {"https": "http", "http": "https"}
_ENOUGH = 64  # bytes of an answer that tell HTTP from anything else


def other_scheme(given: Address, timeout: float) -> Address | None:
    """Return the address with the scheme that its port speaks instead; None where that is not certain.

    Nothing but a request without credentials, or the start of TLS, is sent.

    Args:
        given: an address with a port that did not answer by its own scheme.
        timeout: seconds for the port to answer.

    """
    speaks = {"https": _speaks_http, "http": _speaks_tls}.get(given.scheme)
    if speaks is None or given.port is None:
        return None
    try:
        with socket.create_connection((given.host, given.port), timeout) as connection:
            connection.settimeout(timeout)
            return replace(given, scheme=_OTHER[given.scheme]) if speaks(connection, given) else None
    except OSError:
        return None


def _speaks_http(connection: socket.socket, given: Address) -> bool:
    """Return whether plain HTTP is served; a port of TLS refuses such a request with status 400."""
    request = f"GET /v2/health/live HTTP/1.1\r\nHost: {given.netloc()}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii", "replace"))
    words = connection.recv(_ENOUGH).split(maxsplit=2)
    return len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1] != b"400"


def _speaks_tls(connection: socket.socket, given: Address) -> bool:
    context = ssl.create_default_context()
    # Whom it belongs to does not matter yet: nothing is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(connection, server_hostname=given.host):
        return True
