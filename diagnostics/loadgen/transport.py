"""What sends requests in one protocol, seen from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from exporters.sources.failure import plain

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
    """Return the reply of a request that failed, told in one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Reply(ok=False, code=code, error=plain(reason, 300))


def unusable(error: Exception) -> Reply:
    """Return the reply of a request whose answer cannot be read, whatever is wrong with it."""
    return refused(f"the answer cannot be used: {str(error) or type(error).__name__}", 200)
