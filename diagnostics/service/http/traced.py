"""A span of each request that is served, by OpenTelemetry's semantic conventions for HTTP servers.

Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/. Queries are left out: they may hold credentials.
The receiver of spans makes none, so that no way of sending ours can lead back into more of them.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diagnostics.service.http.otlp_status import PATH as RECEIVER
from diagnostics.service.own.tracer import SpanRole, Tracer, Value

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
_LONGEST_PATH = 500
_CONTEXT = ("traceparent", "tracestate", "baggage")


class TracingMiddleware:
    """ASGI middleware, for what the guard lets in."""

    def __init__(self, app: ASGIApp, *, tracer: Tracer) -> None:
        self._app, self._tracer = app, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _inner_path(scope) == RECEIVER:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer.span(method, _attributes(scope, method), kind=SpanRole.SERVER, caller=_caller(scope)) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.note("http.response.status_code", status)
                    if status >= 500:
                        span.failed(str(status))
                await send(message)

            await self._app(scope, receive, sending)
            route = getattr(scope.get("route"), "path", "")
            if route:
                span.call(f"{method} {route}")
                span.note("http.route", route)


def _inner_path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _attributes(scope: Scope, method: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "http.request.method": method,
        "url.scheme": scope.get("scheme", "http"),
        "url.path": scope["path"][:_LONGEST_PATH],
        "network.protocol.version": scope.get("http_version", ""),
    }
    for name, pair in (("server", scope.get("server")), ("client", scope.get("client"))):
        if pair:
            found |= {f"{name}.address": pair[0], f"{name}.port": pair[1] or 0}
    return found


def _caller(scope: Scope) -> dict[str, str]:
    headers = Headers(scope=scope)
    return {name: headers[name] for name in _CONTEXT if name in headers}
