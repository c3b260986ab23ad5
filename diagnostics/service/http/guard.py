"""Which names the listener answers to. A page of a stranger, whose name was made to lead here, must not read ours."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diagnostics.errors import UsageError
from diagnostics.service.http.authentication import SECONDS_PER_ATTEMPT, TOO_MANY, Authentication, AuthOutcome, user_of
from diagnostics.service.http.health import OPEN_PATHS
from diagnostics.service.http.otlp import PATH as RECEIVER
from diagnostics.service.http.otlp import form_of, refusal
from diagnostics.service.http.problems import problem
from diagnostics.service.listening import Listen, ip_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peers, peer_of
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
        """Return whether a `Host` header names the listener."""
        host = _host(header)
        if host is None:
            return False
        return host.rstrip(".") in self._names or (self._addresses and ip_of(host) is not None)

    def same_origin(self, origin: str, host: str, scheme: str) -> bool:
        """Return whether an `Origin` header names the page that the listener itself shows."""
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


READING = frozenset({"GET", "HEAD", "OPTIONS"})
# What the receivers of spans take. A page of a stranger can send forms and plain text without being asked, not these.
CONTENT_TYPES = frozenset({"application/json", "application/x-protobuf"})
# Bytes of the call of a tool: some names and numbers. As objects of Python it takes up to thirty times as many.
LARGEST_CALL = 64 * 2**10
# Seconds in which a body must have come.
BODY_WITHIN = 30.0
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_OPEN_PATHS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Refusal(NamedTuple):
    """Why a request is rejected: for the metric, and for whoever asked."""

    reason: str
    status: int
    detail: str
    headers: Mapping[str, str] = MappingProxyType({})


class Guard:
    """ASGI middleware. Routes find `request.state.nonce`, for inline scripts, and `request.state.authenticated`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        authentication: Authentication,
        max_body: int,
        metrics: OwnMetrics,
        peers: Peers[socket.socket],
        routes: str = "",
    ) -> None:
        """`routes` is what all paths begin with; empty for nothing. `peers` are notified of who was admitted."""
        self._app, self._hosts, self._authentication = app, hosts, authentication
        self._max_body, self._metrics, self._peers = max_body, metrics, peers
        self._open = frozenset(f"{routes}{path}" for path in OPEN_PATHS)
        self._receiver = f"{routes}{RECEIVER}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        nonce = state["nonce"] = secrets.token_urlsafe(16)
        headers = Headers(scope=scope)
        body = _Body(receive, self._most(scope), there=_has_body(headers))
        sending = self._with_headers(send, nonce, body)
        refused = self._misplaced(scope, headers) or await self._unknown(scope, headers)
        if scope.get("client"):
            admitted = bool(state.get("authenticated")) and refused is None
            self._peers.requested(peer_of(scope["client"]), admitted=admitted)
        if refused is not None:  # its body is not read: the connection ends with the answer
            await self._reported(scope, headers, refused)(scope, receive, sending)
        else:
            await self._app(scope, body.receive, sending)

    def _misplaced(self, scope: Scope, headers: Headers) -> _Refusal | None:
        """Return why a request comes from the wrong place; None where it does not."""
        host = headers.get("host", "")
        if not self._hosts.knows(host):
            return _Refusal("host", 421, "the Host header names another; web.allowed_hosts lists further names")
        if scope["method"] in READING:
            return None
        if not self._from_here(scope, headers, host):
            return _Refusal("origin", 403, "the request comes from another site's page")
        if self._takes_body(scope) and _kind(headers) not in CONTENT_TYPES:
            return _Refusal("content-type", 415, f"the body is none of {', '.join(sorted(CONTENT_TYPES))}")
        if _length(headers) > self._most(scope):
            return _Refusal("size", 413, f"the body is larger than {self._most(scope)} bytes")
        return None

    def _most(self, scope: Scope) -> int:
        """Return the bytes of the largest body: only spans need many, and of a call objects are made."""
        return self._max_body if scope["path"] == self._receiver else min(self._max_body, LARGEST_CALL)

    def _takes_body(self, scope: Scope) -> bool:
        """Return whether there is a use for a body; elsewhere the routes say that the method, or the path, is wrong."""
        return bool(scope["method"] == "POST" and scope["path"] == self._receiver)

    def _from_here(self, scope: Scope, headers: Headers, host: str) -> bool:
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or self._hosts.same_origin(origin, host, scope.get("scheme", "http"))

    async def _unknown(self, scope: Scope, headers: Headers) -> _Refusal | None:
        """Return why a request's credentials do not do; None where they do."""
        if scope["path"] in self._open:
            return None
        address = scope["client"][0] if scope.get("client") else ""
        answer = await self._authentication.answer(headers.get("authorization"), address)
        scope["state"]["authenticated"] = answer is AuthOutcome.ADMITTED
        scope["state"]["user"] = user_of(headers.get("authorization")) if answer is AuthOutcome.ADMITTED else ""
        if answer is AuthOutcome.TOO_MANY:
            return _Refusal("attempts", 429, TOO_MANY, {"Retry-After": f"{SECONDS_PER_ATTEMPT:g}"})
        if answer in (AuthOutcome.MISSING, AuthOutcome.WRONG):
            challenge = {"WWW-Authenticate": self._authentication.challenge}
            return _Refusal("credentials", 401, f"credentials are {answer.value}", challenge)
        return None

    def _reported(self, scope: Scope, headers: Headers, why: _Refusal) -> Response:
        self._metrics.refused.labels(why.reason).inc()
        if scope["path"] == self._receiver:  # exporters read nothing but their own protocol
            return refusal(form_of(headers.get("content-type", "")), why.status, why.detail, why.headers)
        return problem(why.status, why.detail, dict(why.headers))

    def _with_headers(self, send: Send, nonce: str, body: _Body) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._authentication.credentials.config.headers.items():
                    headers[name] = value
                for name, value in _OPEN_PATHS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", _POLICY.format(nonce=nonce))
                if body.unread:
                    headers["Connection"] = "close"
            await send(message)

        return sending


class _Body:
    """A request's body, as far as it may go and no slower than it may come.

    Attributes:
        unread: whether some of it is still to be read.

    """

    def __init__(self, receive: Receive, most: int, *, there: bool) -> None:
        self._receive, self._left, self._most = receive, most, most
        self._due = time.monotonic() + BODY_WITHIN
        self._more, self.unread = True, there

    async def receive(self) -> Message:
        """Return the next part.

        Raises:
            HTTPException: it is too large, or too late.

        """
        if not self._more:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._due - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {BODY_WITHIN:g} s") from None
        self._more = bool(message.get("more_body", False))
        self.unread = self.unread and self._more
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, f"the body is larger than {self._most} bytes")
        return message


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or _length(headers) > 0


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _length(headers: Headers) -> int:
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() else 0
