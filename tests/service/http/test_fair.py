from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from diagnostics.service.http import connection


@pytest.fixture
def readable() -> Iterator[list[socket.socket]]:
    with ExitStack() as opened:
        pairs = [socket.socketpair() for _ in range(10)]
        for pair in pairs:
            for one in pair:
                opened.enter_context(one)
            pair[1].sendall(b"x")
        yield [pair[0] for pair in pairs]


def test_those_that_waited_longest_are_served_first_and_nobody_is_passed_over(
    readable: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "AT_ONCE", 3)
    with connection.FairSelector() as selector:
        *busy, late = readable
        for one in busy:
            selector.register(one, selectors.EVENT_READ)
        served = [key.fd for _ in range(3) for key, _ in selector.select(0)]
        assert sorted(served) == sorted(one.fileno() for one in busy)
        selector.register(late, selectors.EVENT_READ)
        assert late.fileno() in {key.fd for key, _ in selector.select(0)}


def test_a_number_that_is_used_again_has_waited_for_nothing_yet(readable: list[socket.socket]) -> None:
    with connection.FairSelector() as selector:
        selector.register(readable[0], selectors.EVENT_READ)
        selector.select(0)
        selector.unregister(readable[0])
        assert selector._served == {}
