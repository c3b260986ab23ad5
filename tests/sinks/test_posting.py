from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from diagnostics.errors import UsageError
from exporters.sinks.posting import DeliveryFailure, Poster
from exporters.sources.access import SourceOptions
from tests.collect.fake_triton import FakeServer, cut_off, dripping, silent, status

ROUTE = "POST /hook/s3cret-path"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as running:
        yield running


def poster(server: FakeServer, **options: object) -> Poster:
    return Poster(f"{server.url}/hook/s3cret-path", SourceOptions(**{"timeout": 0.3, **options}))


def failure(one: Poster) -> DeliveryFailure:
    with pytest.raises(DeliveryFailure) as caught:
        one.post(b"{}")
    return caught.value


@pytest.mark.parametrize("code", [200, 201, 202, 204])
def test_any_success_is_taken(server: FakeServer, code: int) -> None:
    server.routes[ROUTE] = status(code)
    poster(server, bearer_token="t0ken").post(b"{}", {"webhook-id": "1"})
    ((_, headers),) = server.seen
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["webhook-id"] == "1"


@pytest.mark.parametrize(
    ("code", "refused"), [(400, True), (413, True), (422, True), (401, False), (404, False), (500, False)]
)
def test_only_what_would_be_refused_again_is_refused(server: FakeServer, code: int, refused: bool) -> None:
    server.routes[ROUTE] = status(code, b"no\nmore")
    assert failure(poster(server)).refused is refused
    assert str(failure(poster(server))) == f"HTTP {code}: no"


def test_a_redirect_is_not_followed(server: FakeServer) -> None:
    server.routes[ROUTE] = status(307, Location=f"{server.url}/elsewhere")
    assert "307" in str(failure(poster(server)))
    assert len(server.seen) == 1


def test_a_receiver_that_asks_for_time_is_given_it(server: FakeServer) -> None:
    server.routes[ROUTE] = status(429, **{"Retry-After": "7"})
    assert failure(poster(server)).retry_after == 7.0
    server.routes[ROUTE] = status(503, **{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})
    assert failure(poster(server)).retry_after == 0.0


def test_a_receiver_that_hangs_or_drips_costs_one_timeout(server: FakeServer) -> None:
    release = threading.Event()
    try:
        for answer in (silent(release), dripping(release)):
            server.routes[ROUTE] = answer
            begun = time.monotonic()
            assert "within 0.3 s" in str(failure(poster(server)))
            assert time.monotonic() - begun < 10
    finally:
        release.set()


def test_of_an_endless_answer_little_is_read(server: FakeServer) -> None:
    hung_up = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"x" * 65_536)
        hung_up.set()

    server.routes[ROUTE] = endless
    poster(server, timeout=5.0).post(b"{}")
    assert hung_up.wait(5.0)


def test_garbage_and_a_closed_port_have_their_reasons(server: FakeServer) -> None:
    server.routes[ROUTE] = cut_off
    assert "cut off" in str(failure(poster(server)))
    gone = Poster("http://127.0.0.1:1/hook", SourceOptions(timeout=0.3))
    assert str(failure(gone)) == "connection refused"


def test_no_reason_and_no_name_shows_a_secret(server: FakeServer) -> None:
    server.routes[ROUTE] = status(500, b"you sent Bearer t0ken to s3cret")
    one = poster(server, bearer_token="t0ken")
    assert "t0ken" not in str(failure(one))
    assert one.shown == server.url
    with pytest.raises(UsageError) as caught:
        Poster("ftp://h/s3cret", SourceOptions())
    assert "s3cret" not in str(caught.value)
