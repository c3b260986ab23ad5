"""Between the inputs of a request and what tritonclient and JSON make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from exporters.sources.http import plain


def input_tensors(triton: Any, values: Values, kinds: Mapping[str, str]) -> list[Any]:
    """Return a request's inputs as tensors of the client module `triton`.

    Args:
        triton: `tritonclient.http` or `tritonclient.grpc`.
        values: the inputs.
        kinds: the data type of each input in the wire's words, as `INT32` or `BYTES`.

    """
    made = []
    for name, array in values.items():
        tensor = triton.InferInput(name, list(array.shape), kinds[name])
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def input_json(values: Values) -> dict[str, Any]:
    """Return a request's inputs as the generate endpoint takes them: a tensor of one element is a plain value."""
    return {name: _plain(array) for name, array in values.items()}


def _plain(array: Any) -> Any:
    flat = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in array.ravel().tolist()]
    return flat[0] if len(flat) == 1 else flat


def _tokens(counts: Any) -> int:
    try:
        return int(np.sum(counts))
    except (TypeError, ValueError):
        raise ValueError("what counts its tokens is no number") from None


def of_model(requested: str, stated: object) -> None:
    """Refuse an answer of another model than was asked; one that names none is taken at its word.

    Raises:
        ValueError: it names another model.

    """
    if stated and stated != requested:
        raise ValueError(f"it is of model {stated!r}")


def read_result(result: Any, reads: Reads) -> tuple[tuple[int, ...], str]:
    """Return count and text of one response of tritonclient; nothing of what it does not hold."""
    counts = result.as_numpy(reads.counts) if reads.counts else None
    text = result.as_numpy(reads.text) if reads.text else None
    return (
        () if counts is None else (_tokens(counts),),
        "" if text is None else b"".join(text.ravel().tolist()).decode("utf-8", "replace"),
    )


def read_json(body: Mapping[str, Any], reads: Reads) -> tuple[tuple[int, ...], str]:
    """Return count and text of one response of the generate endpoint."""
    counts, text = body.get(reads.counts), body.get(reads.text, "")
    return (
        () if counts is None else (_tokens(counts),),
        text if isinstance(text, str) else "".join(map(str, text)),
    )


def whole(parts: list[tuple[tuple[int, ...], str]], first: float | None = None) -> Reply:
    """Return the reply of responses that came one by one.

    A single response shows when the answer was whole, and not when it began, unless it is one token.
    """
    counts = tuple(count for counts, _ in parts for count in counts)
    began = first if len(parts) > 1 or counts == (1,) else None
    return Reply(first=began, counts=counts, text="".join(text for _, text in parts))


Values = Mapping[str, Any]
"""A request's inputs: an array by the name of its tensor, batch dimension included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how requests are sent; credentials are in no repr.

    Attributes:
        place: `host:port`, with the path of a gateway behind it.
        name: `host:port`.
        secure: whether over TLS.
        protocol: `http`, `grpc` or `generate`.
        streaming: whether responses come one by one.
        timeout: seconds after which a request has failed.
        connections: open ones at most.

    """

    place: str
    name: str
    secure: bool
    protocol: str
    streaming: bool
    timeout: float
    connections: int

    @property
    def url(self) -> str:
        """Where requests go, with the scheme of the protocol."""
        scheme = "grpc" if self.protocol == "grpc" else "http"
        return f"{scheme}{'s' if self.secure else ''}://{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of one request.

    Attributes:
        first: when its first response came, on the steady clock; None if none did or it came whole.
        ok: whether it is a result.
        code: as `Answer.code`.
        counts: what the counting tensor said, one number per response.
        text: the text that came, for a tokenizer; empty if none was asked for.
        error: why it failed.

    """

    first: float | None = None
    ok: bool = True
    code: int = 200
    counts: tuple[int, ...] = ()
    text: str = ""
    error: str = ""


class Transport(Protocol):
    """A client of one protocol. What fails comes back as a reply; nothing is raised while load runs."""

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        """Make what is sent ready, so that sending takes no time of it."""

    async def ask(self, index: int) -> Reply:
        """Send one of the prepared requests and return what came of it."""

    async def alive(self) -> bool:
        """Return whether anybody answers, be it with an error."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What is read of answers: the tensor that counts tokens, and the one whose text is counted; empty for none."""

    counts: str = ""
    text: str = ""


def refused(error: Exception | str, code: int) -> Reply:
    """Return the reply of a request that failed, with the reason in one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Reply(ok=False, code=code, error=plain(reason, 300))


def unusable(error: Exception) -> Reply:
    """Return the reply of a request whose answer cannot be read, whatever is wrong with it."""
    return refused(f"the answer cannot be used: {str(error) or type(error).__name__}", 200)
