"""Answers of the OTLP receiver that are no answers: `google.rpc.Status`, in the encoding of the request."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from diagnostics.render.plain import clean
from diagnostics.service.http.context import WebContext
from diagnostics.service.otlp_intake import ExportResponse, ExportStatus, Form, OtlpIntake, exported, throttled
from diagnostics.service.peers import counted_as
from diagnostics.service.whole_messages import NoRoom

PATH = "/v1/traces"
_LONGEST_MESSAGE = 500
_CODES: Mapping[int, int] = {
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    408: Code.DEADLINE_EXCEEDED,
    429: Code.RESOURCE_EXHAUSTED,
    503: Code.UNAVAILABLE,
}


def form_of(content_type: str) -> Form | None:
    """Return how a body of this content type is written; None for one that the receiver does not read."""
    try:
        return Form(content_type.partition(";")[0].strip().lower())
    except ValueError:
        return None


def refusal(form: Form | None, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer; in JSON where the request is written in no known form."""
    line = " ".join(clean(detail).split())[:_LONGEST_MESSAGE]
    message = Status(code=_CODES.get(status, Code.INVALID_ARGUMENT), message=line)
    return written(form or Form.JSON, status, message, headers)


def written(form: Form, status: int, message: Message, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message as an answer."""
    body = message.SerializeToString() if form is Form.PROTOBUF else MessageToJson(message, indent=None).encode()
    return Response(body, status, headers, media_type=form.value)


# Seconds in which a message must have come as a whole.
WITHIN = 30.0
# Each may be as large as `web.max_body`.
MOST = 16


class PendingUploads:
    """Used within one event loop."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._open: dict[asyncio.Timeout, str] = {}

    @asynccontextmanager
    async def of(self, address: str) -> AsyncIterator[None]:
        """Hold a place while a message of this sender comes.

        Raises:
            TimeoutError: it took too long, or gave way.

        """
        async with asyncio.timeout(WITHIN) as due:
            self._open[due] = counted_as(address)
            self._make_room()
            try:
                yield
            finally:
                self._open.pop(due, None)

    def _make_room(self) -> None:
        while len(self._open) > self._most:
            held = Counter(self._open.values())
            most = max(held.values())
            oldest = next(due for due, sender in self._open.items() if held[sender] == most)
            del self._open[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())


_PLAIN = frozenset({"", "identity"})
# RFC 1952, 2.3.1: how gzip begins.
_GZIP = b"\x1f\x8b"


def router(context: WebContext) -> APIRouter:
    """Return the receiver; nothing where spans are not taken."""
    routes = APIRouter(include_in_schema=False)
    if context.intake is not None and context.settings.otlp.http:
        receiver = Receiver(context.intake, context.settings.web.max_body)
        routes.add_api_route(PATH, receiver.answer, methods=["POST"])
    return routes


class Receiver:
    """Reads requests in a thread of its own, one after another, so that the event loop goes on meanwhile."""

    def __init__(self, intake: OtlpIntake, max_body: int) -> None:
        """Take bodies up to `max_body` bytes, unpacked."""
        self._intake, self._max_body = intake, max_body
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="otlp")
        self._arrivals = PendingUploads()

    async def answer(self, request: Request) -> Response:
        """Return the answer to an export request, in the encoding of the request."""
        form = form_of(request.headers.get("content-type", ""))
        if form is None:
            return refusal(form, 415, f"the body is neither {Form.PROTOBUF.value} nor {Form.JSON.value}")
        try:
            return await self._taken(request, form)
        except HTTPException as error:
            return refusal(form, error.status_code, str(error.detail), error.headers)

    async def _taken(self, request: Request, form: Form) -> Response:
        peer = request.client.host if request.client else ""
        wait = self._intake.wait(peer)
        if wait:
            return _response(form, throttled(wait))
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if encoding not in _PLAIN | {"gzip"}:
            raise HTTPException(415, "the body is encoded otherwise than with gzip")
        body = await self._arrived(request, peer)
        known = bool(getattr(request.state, "authenticated", False))
        work = partial(self._read, body, encoding, form, peer, authenticated=known)
        try:
            with self._intake.whole.holding(len(body)):
                return _response(form, await asyncio.get_running_loop().run_in_executor(self._thread, work))
        except NoRoom as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from None

    async def _arrived(self, request: Request, peer: str) -> bytes:
        try:
            async with self._arrivals.of(peer):
                return await request.body()
        except TimeoutError:
            detail = "the body gave way to newer ones, or did not come in time"
            raise HTTPException(503, detail, {"Retry-After": "1"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended before its end") from None

    def _read(self, body: bytes, encoding: str, form: Form, peer: str, *, authenticated: bool) -> ExportResponse:
        plain = body if encoding in _PLAIN else unpacked(body, self._max_body)
        if plain.startswith(_GZIP):  # neither JSON nor protobuf can begin so
            raise HTTPException(
                400, "the body is gzip beyond what its Content-Encoding says; send gzip once, and say so"
            )
        return self._intake.accept(plain, form, peer, authenticated=authenticated)


def unpacked(body: bytes, most: int) -> bytes:
    """Return what a gzip body holds.

    Raises:
        HTTPException: it is larger than `most` bytes, damaged, cut off, or something follows it.

    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise HTTPException(400, "the body is damaged gzip") from None
    if len(plain) > most:
        raise HTTPException(413, f"the body unpacks to more than {most} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise HTTPException(400, "the body is not one whole gzip member")
    return plain


def _response(form: Form, answer: ExportResponse) -> Response:
    if answer.status is ExportStatus.THROTTLED:
        return refusal(form, 429, answer.message, {"Retry-After": str(answer.retry_after)})
    if answer.status is ExportStatus.MALFORMED:
        return refusal(form, 400, answer.message)
    return written(form, 200, exported(answer))
