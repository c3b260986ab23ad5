"""Floods of requests of one kind leave room for all others."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import cast

import pytest
from fastapi import HTTPException
from fastapi.routing import APIRoute

from diagnostics.service.attention import Attention
from diagnostics.service.http import app
from diagnostics.service.http.api import MOST_AT_ONCE
from diagnostics.service.http.page.pictures import IncidentPictures
from diagnostics.service.http.pictures import pictures_router
from diagnostics.service.http.waiting import WaitingConnections
from diagnostics.store.journal import MOST_ENTRIES, JournalAction, JournalEntry
from tests.service.http.door import door


def test_a_flood_of_probes_keeps_out_nobody() -> None:
    """They need no credentials: whoever sends many must neither be served before all others nor have them ended."""
    waiting = WaitingConnections()
    with ExitStack() as opened:
        opened.callback(waiting.close)
        probe, page = b"GET /healthz HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"
        for address, text in (*[("10.0.0.1", probe)] * 9, ("10.0.0.2", page), ("10.0.0.2", page), ("10.0.0.3", probe)):
            near, far = socket.socketpair()
            opened.enter_context(far)
            waiting.add((near, (address, 1)))
            far.sendall(text)
        waiting.look()
        assert waiting.make_room(6, 60.0) == 6
        served = []
        while (accepted := waiting.pop()) is not None:
            opened.enter_context(accepted[0])
            served.append((accepted[1][0], accepted[0].recv(99) == probe))
        assert served[:4] == [("10.0.0.1", True), ("10.0.0.2", False), ("10.0.0.3", True), ("10.0.0.2", False)]
        assert served[4:] == [("10.0.0.1", True)] * 2


def test_pictures_that_are_drawn_leave_threads_for_other_requests():
    """One is drawn at a time, and each that waits holds one of the forty threads that answer."""
    begun, over = threading.Semaphore(0), threading.Event()

    class Slow:
        def png(self, identity: str) -> bytes:
            begun.release()
            over.wait(30)
            return identity.encode()

    (route,) = pictures_router(cast(IncidentPictures, Slow())).routes
    draw = cast(APIRoute, route).endpoint
    with ThreadPoolExecutor() as pool:
        drawn = [pool.submit(draw, f"{number}") for number in range(MOST_AT_ONCE)]
        for _ in drawn:
            assert begun.acquire(timeout=30)
        with pytest.raises(HTTPException) as caught:
            draw("more")
        over.set()
        assert [one.result().body for one in drawn] == [b"0", b"1"]
    assert caught.value.status_code == 503
    assert draw("later").body == b"later"


def entry(action: JournalAction, at: float) -> JournalEntry:
    return JournalEntry(
        action=action, at=at, who="alice", origin="", deployment="", incident="one", start=at, end=at + 60, text=""
    )


def test_a_flood_of_events_does_not_push_out_what_keeps_receivers_quiet():
    attention = Attention()
    attention.record(entry(JournalAction.ACKNOWLEDGE, 0.0))
    attention.record(entry(JournalAction.MAINTENANCE, 0.0))
    for number in range(MOST_ENTRIES + 1):
        attention.record(entry(JournalAction.EVENT, 1.0 + number))
    assert attention.acknowledgement("one") is not None
    assert attention.maintained("any", 30.0)
    assert len(attention.events()) == MOST_ENTRIES
    assert [one.at for one in attention.entries()][:2] == [1.0 + MOST_ENTRIES, MOST_ENTRIES]


def test_an_operator_writes_a_hundred_times_at_once_and_then_once_a_second(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "MOST_WRITES", 2)
    monkeypatch.setattr(app, "SECONDS_PER_WRITE", 3600.0)
    body = json.dumps({"who": "alice", "text": "a deploy"}).encode()
    with door() as opened:
        answers = [opened.ask("/api/v1/events", "POST", body=body, content_type="application/json") for _ in range(3)]
        assert [one.status for one in answers] == [200, 200, 429]
        assert answers[-1].headers["Retry-After"]
        assert len(opened.json("/api/v1/events")) == 2
