"""Alertmanagers and webhooks that take a message and never end their answer: a message has one deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from exporters.sinks.posting import DeliveryFailure, Poster
from exporters.sources.access import SourceOptions

TIMEOUT = 1.0
# Each interim answer, and each byte of a header, is in time by itself.
ENDLESS: tuple[tuple[bytes, bytes, float], ...] = (
    (b"HTTP/1.1 200 OK\r\nX: ", b"a", 0.1),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"a", 0.1),
)


def answering(connection: socket.socket, begin: bytes, part: bytes, pause: float, over: threading.Event) -> None:
    connection.sendall(begin)
    while not over.wait(pause):
        try:
            connection.sendall(part)
        except OSError:
            return


@pytest.fixture
def receiver() -> Iterator[Callable[[bytes, bytes, float], str]]:
    """Return the address of a receiver that begins an answer, and goes on with a part of it forever."""
    over, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def started(begin: bytes, part: bytes, pause: float) -> str:
        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                answering(connection, begin, part, pause, over)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield started
    over.set()
    listener.close()


def posted(url: str) -> tuple[float, object]:
    """Return the seconds that a message took, and what became of it; the seconds of a patient reader if it hangs."""
    ended: list[object] = []

    def post() -> None:
        try:
            ended.append(Poster(url, SourceOptions(timeout=TIMEOUT)).post(b"{}"))
        except DeliveryFailure as failure:
            ended.append(failure)

    begun, thread = time.monotonic(), threading.Thread(target=post, daemon=True)
    thread.start()
    thread.join(10 * TIMEOUT)
    return time.monotonic() - begun, ended[0] if ended else None


@pytest.mark.parametrize(("begin", "part", "pause"), ENDLESS, ids=["header", "interim answers", "body"])
def test_an_answer_without_end_fails_at_the_deadline(
    receiver: Callable[[bytes, bytes, float], str], begin: bytes, part: bytes, pause: float
):
    seconds, ended = posted(receiver(begin, part, pause))
    assert isinstance(ended, DeliveryFailure)
    assert seconds < 5 * TIMEOUT
