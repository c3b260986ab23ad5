from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from diagnostics.service.http import connection
from diagnostics.service.http.waiting import WaitingConnections


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
        looks = [{key.fd for key, _ in selector.select(0)} for _ in range(7)]
        assert set().union(*looks) == {one.fileno() for one in busy}
        assert all(looks[at] & set().union(*looks[:at]) for at in range(1, 7)), (
            "what was served waits behind all that is new"
        )
        selector.register(late, selectors.EVENT_READ)
        assert late.fileno() in {key.fd for key, _ in selector.select(0)}


def test_a_number_that_is_used_again_has_waited_for_nothing_yet(readable: list[socket.socket]) -> None:
    with connection.FairSelector() as selector:
        selector.register(readable[0], selectors.EVENT_READ)
        selector.select(0)
        selector.unregister(readable[0])
        assert selector._served == {}


def test_a_probe_of_health_is_served_before_those_that_wait_and_each_address_has_its_turn() -> None:
    waiting = WaitingConnections()
    with ExitStack() as opened:
        opened.callback(waiting.close)

        def came(address: str, *parts: bytes) -> None:
            near, far = socket.socketpair()
            opened.enter_context(far)
            waiting.add((near, (address, 1)))
            for part in parts:
                far.sendall(part)
                waiting.look()

        for at in range(3):
            came("10.0.0.1", b"GET /%d HTTP/1.1\r\n" % at, b"\r\n")
        came("10.0.0.2", b"GET /metrics HTTP/1.1\r\n\r\n")
        came("10.0.0.1", b"GET /diag/healthz HTTP/1.1\r\n", b"Host: x\r\n\r\n")
        came("10.0.0.1", b"GET /healthz HTTP/1.1\r\nX: ")
        came("10.0.0.1", b"\x16\x03\x01\x00\x05hell")
        came("10.0.0.1", b"\x16\x03\x01\x00\x05hello")
        served = []
        while (accepted := waiting.pop()) is not None:
            served.append((accepted[1][0], accepted[0].recv(99).split(b" HTTP")[0]))
            opened.enter_context(accepted[0])
        assert served[0] == ("10.0.0.1", b"GET /diag/healthz")
        assert [address for address, _ in served[1:4]] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
        assert [text for _, text in served[4:]] == [b"GET /2", b"\x16\x03\x01\x00\x05hello"]
        assert len(waiting) == 2


def test_of_too_many_that_wait_those_without_headers_end_first_then_those_of_the_busiest_address() -> None:
    waiting = WaitingConnections()
    with ExitStack() as opened:
        opened.callback(waiting.close)
        for address, text in (
            ("10.0.0.2", b"GET / HTTP/1.1\r\n\r\n"),
            *[("10.0.0.1", b"X\r\n\r\n")] * 3,
            ("10.0.0.3", b""),
        ):
            near, far = socket.socketpair()
            opened.enter_context(far)
            waiting.add((near, (address, 1)))
            far.sendall(text)
        waiting.look()
        assert waiting.make_room(4, 60.0) == 1
        assert waiting.ready == 4
        assert waiting.make_room(2, 60.0) == 2
        assert [waiting.pop()[1][0] for _ in range(2)] == ["10.0.0.2", "10.0.0.1"]  # type: ignore[index]
