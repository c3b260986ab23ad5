"""Answers of the OTLP receiver that are no answers: `google.rpc.Status`, in the encoding of the request."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import Response
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status

from diagnostics.render.clean import clean
from diagnostics.service.otlp_intake import Form

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
