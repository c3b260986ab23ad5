from __future__ import annotations

import gzip
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import urllib3
from fake_triton import FakeServer, cut_off, dripping, free_ports, guarded, page, silent, status

from exporters.sources.access import SourceOptions
from exporters.sources.http import HttpReader, Obstacle, ReadFailure


def read(server: FakeServer, **options: object) -> bytes:
    return HttpReader(SourceOptions(**{"timeout": 2.0, **options})).read("GET", f"{server.url}/x")


def failure_of(server: FakeServer, **options: object) -> ReadFailure:
    with pytest.raises(ReadFailure) as caught:
        read(server, **options)
    assert str(caught.value).isprintable()
    return caught.value


def test_a_compressed_page_is_unpacked():
    with FakeServer({"GET /x": page(b"nv_x 1\n", compress=True)}).running() as server:
        assert read(server) == b"nv_x 1\n"
        assert server.seen[0][1]["Accept-Encoding"] == "gzip"


def test_no_connection_is_kept_open():
    with FakeServer({"GET /x": page(b"ok")}).running() as server:
        read(server)
        assert server.seen[0][1]["Connection"] == "close"


def test_a_closed_port_is_stated_to_refuse():
    failure = failure_of(FakeServer(port=free_ports()))
    assert (failure.reason, failure.obstacle) == ("connection refused", Obstacle.CLOSED)


def test_an_unknown_host_is_named_as_such():
    with pytest.raises(ReadFailure) as caught:
        HttpReader(SourceOptions()).read("GET", "http://no-such-host.invalid:8000/v2")
    assert caught.value.obstacle is Obstacle.NO_HOST


def test_a_server_that_never_answers_times_out():
    release = threading.Event()
    with FakeServer({"GET /x": silent(release)}).running() as server:
        failure = failure_of(server, timeout=0.2)
        release.set()
    assert (failure.reason, failure.obstacle) == ("no answer within 0.2 s", Obstacle.LATE)


def test_a_server_that_drips_is_given_up_at_the_deadline():
    release = threading.Event()
    with FakeServer({"GET /x": dripping(release)}).running() as server:
        begun = time.monotonic()
        failure = failure_of(server, timeout=0.3)
        release.set()
    assert failure.reason == "no complete answer within 0.3 s"
    assert time.monotonic() - begun < 10


def test_headers_that_drip_are_given_up_at_the_deadline():
    release = threading.Event()

    def dripping_headers(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not release.wait(0.02):
            handler.wfile.write(b"#")

    with FakeServer({"GET /x": dripping_headers}).running() as server:
        begun = time.monotonic()
        failure = failure_of(server, timeout=0.3)
        release.set()
    assert failure.reason == "no answer within 0.3 s"
    assert time.monotonic() - begun < 10


def test_a_body_that_ends_early_is_no_body():
    with FakeServer({"GET /x": cut_off}).running() as server:
        assert failure_of(server).reason == "the answer was cut off"


def test_a_damaged_compressed_body_is_no_body():
    damaged = bytearray(gzip.compress(bytes(range(256)) * 9))
    damaged[20:40] = b"\xff" * 20
    answer = status(200, bytes(damaged), **{"Content-Encoding": "gzip"})
    with FakeServer({"GET /x": answer}).running() as server:
        assert failure_of(server).reason == "the compressed answer is damaged"


@pytest.mark.parametrize("compress", [False, True])
def test_a_huge_body_is_given_up(compress: bool):
    with FakeServer({"GET /x": page(bytes(2**21), compress=compress)}).running() as server:
        assert failure_of(server, max_body=2**20).reason == "the answer is larger than 1 MiB"


def test_a_redirect_is_not_followed():
    answer = status(302, Location="http://elsewhere/\x1b[31m")
    with FakeServer({"GET /x": answer}).running() as server:
        failure = failure_of(server, bearer_token="t0ken")
        assert len(server.seen) == 1
    assert failure.reason.startswith("HTTP 302 redirect to http://elsewhere/")


def test_tritons_own_words_follow_the_status():
    answer = status(500, b'{"error": "out of\\u001b[2J memory\\nstack"}')
    with FakeServer({"GET /x": answer}).running() as server:
        assert failure_of(server).reason == "HTTP 500: out of?[2J memory"


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "no such model", "type": "NotFoundError", "code": 404}}',
        b'{"object": "error", "message": "no such model", "code": 404}',
    ],
)
def test_the_words_of_openais_api_follow_the_status(body: bytes):
    with FakeServer({"GET /x": status(404, body)}).running() as server:
        assert failure_of(server).reason == "HTTP 404: no such model"


@pytest.mark.parametrize("body", [b'{"error": {"message": ["a"]}}', b'{"error": {}}', b'{"message": "x"}', b"[1]"])
def test_what_is_no_text_does_not_follow_the_status(body: bytes):
    with FakeServer({"GET /x": status(500, body)}).running() as server:
        assert failure_of(server).reason == "HTTP 500"


def test_a_proxys_page_does_not_follow_the_status():
    with FakeServer({"GET /x": status(503, b"<html>busy</html>")}).running() as server:
        assert failure_of(server).reason == "HTTP 503"


def test_missing_and_refused_credentials_are_distinguished():
    routes = {"GET /x": guarded("Bearer right", page(b"ok"))}
    with FakeServer(routes).running() as server:
        assert failure_of(server).reason == "HTTP 401, credentials are missing"
        assert failure_of(server, bearer_token="wrong").reason == "HTTP 401, not allowed"
        assert read(server, bearer_token="right") == b"ok"


def test_basic_credentials_reach_the_server():
    routes = {"GET /x": guarded("Basic YW5uOnB3", page(b"ok"))}
    with FakeServer(routes).running() as server:
        assert read(server, basic="ann:pw") == b"ok"


def test_an_echoed_token_is_not_shown():
    answer = status(400, b'{"error": "bad token s3cret"}')
    with FakeServer({"GET /x": answer}).running() as server:
        assert failure_of(server, bearer_token="s3cret").reason == "HTTP 400: bad token [REDACTED]"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-made certificate for 127.0.0.1, with its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *kind, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text(key.read_text() + cert.read_text())
    return both


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_an_untrusted_certificate_is_refused(tls: ssl.SSLContext):
    with FakeServer({"GET /x": page(b"ok")}, tls=tls).running() as server:
        failure = failure_of(server)
        assert server.seen == []
    assert "certificate is not trusted (self-signed certificate)" in failure.reason
    assert "--ca-file" in failure.reason


def test_a_trusted_certificate_is_accepted(tls: ssl.SSLContext, certificate: Path):
    with FakeServer({"GET /x": page(b"ok")}, tls=tls).running() as server:
        assert read(server, ca_file=certificate) == b"ok"


def test_a_certificate_for_another_name_is_refused(tls: ssl.SSLContext, certificate: Path):
    with FakeServer({"GET /x": page(b"ok")}, tls=tls).running() as server:
        reader = HttpReader(SourceOptions(ca_file=certificate))
        with pytest.raises(ReadFailure, match="certificate"):
            reader.read("GET", f"https://localhost:{server.port}/x")


def test_insecure_accepts_any_certificate(tls: ssl.SSLContext):
    with FakeServer({"GET /x": page(b"ok")}, tls=tls).running() as server:
        assert read(server, insecure=True) == b"ok"


def test_a_client_certificate_is_presented(tls: ssl.SSLContext, certificate: Path):
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate)
    with FakeServer({"GET /x": page(b"ok")}, tls=tls).running() as server:
        assert read(server, ca_file=certificate, cert_file=certificate) == b"ok"
        assert failure_of(server, ca_file=certificate).obstacle is not None


def test_tls_to_a_plain_port_says_so():
    with FakeServer({"GET /x": page(b"ok")}).running() as server, pytest.raises(ReadFailure) as caught:
        HttpReader(SourceOptions(timeout=2.0)).read("GET", f"https://127.0.0.1:{server.port}/x")
    assert "http://" in caught.value.reason


def test_authorities_are_read_anew_when_their_file_was_replaced(certificate: Path, tmp_path: Path):
    file = tmp_path / "ca.pem"
    file.write_bytes(certificate.read_bytes())
    options = SourceOptions(ca_file=file)
    before = options.tls()
    file.write_bytes(certificate.read_bytes() * 2)

    assert options.tls() is not before


def test_connections_of_plain_http_are_given_nothing_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """In urllib3 before 2.8 they refuse `assert_hostname`, and no server could be read."""
    made: list[dict[str, object]] = []
    make = urllib3.PoolManager

    def remember(**arguments: object) -> urllib3.PoolManager:
        made.append(arguments)
        return make(**arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(urllib3, "PoolManager", remember)
    with pytest.raises(ReadFailure):
        HttpReader(SourceOptions(timeout=0.5)).read("GET", "http://127.0.0.1:9/v2")

    assert [sorted(arguments) for arguments in made] == [["retries", "timeout"]]
