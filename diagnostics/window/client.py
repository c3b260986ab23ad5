"""What a client saw of its requests: when it sent them, how long they took, whether they came back well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.wire.json_body import json_value, number

_MILLISECOND = 1e-3
# A load generator writes one line per request; ten million are hours of the fastest one, and a bound on memory.
MOST_REQUESTS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """One request as its client saw it.

    Attributes:
        at: Unix seconds of sending, by the client's clock.
        model: the model or ensemble that was called.
        seconds: time from sending to the whole answer.
        ok: whether it was answered as asked.
        code: the status code; None when none came back.

    """

    at: float
    model: str
    seconds: float
    ok: bool
    code: int | None = None


def parse_client(body: bytes) -> tuple[ClientRequest, ...]:
    """Return the requests of a client record (a JSON object per line) in order of sending.

    Lines that are no such object, as the last one of a record that was cut, are left out.
    """
    return tuple(sorted(_requests(body), key=lambda request: request.at))


def _requests(body: bytes) -> Iterator[ClientRequest]:
    for count, line in enumerate(body.splitlines()):
        if count >= MOST_REQUESTS:
            return
        request = _request(line)
        if request is not None:
            yield request


def _request(line: bytes) -> ClientRequest | None:
    try:
        value = json_value(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    at, ms = number(value.get("t")), number(value.get("ms"))
    model, code = value.get("model"), value.get("code")
    if at is None or ms is None or not isinstance(model, str):
        return None
    return ClientRequest(
        at=at,
        model=model,
        seconds=max(ms, 0.0) * _MILLISECOND,
        ok=value.get("ok") is not False,
        code=code if isinstance(code, int) else None,
    )
