"""A scheme that the port does not speak: one line that says what to type."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from diagnostics.errors import CollectError
from exporters.sources.access import SourceOptions
from exporters.sources.http import HttpReader, ReadFailure
from exporters.sources.triton import discover
from tests.collect.fake_triton import FakeServer, fake_triton, status

QUICK = SourceOptions(timeout=2.0)


def refusal(url: str) -> CollectError:
    with pytest.raises(CollectError) as caught:
        discover(url, QUICK)
    return caught.value


def test_tls_to_a_port_of_plain_http_says_what_to_type() -> None:
    with fake_triton() as triton:
        error = refusal(f"https://127.0.0.1:{triton.port}")
        assert (error.what, error.hint) == (
            f"port {triton.port} does not speak TLS",
            f"use http://127.0.0.1:{triton.port}",
        )


def test_the_path_of_a_metrics_page_is_kept() -> None:
    with fake_triton() as triton:
        error = refusal(f"https://127.0.0.1:{triton.port + 2}/metrics")
        assert error.hint == f"use http://127.0.0.1:{triton.port + 2}/metrics"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder: Path = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command = ["openssl", "req", *kind, "-subj", "/CN=test", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def test_plain_http_to_a_port_of_tls_says_what_to_type(tls: ssl.SSLContext) -> None:
    with FakeServer(tls=tls).running() as server:
        error = refusal(f"http://127.0.0.1:{server.port}")
        assert (error.what, error.hint) == (f"port {server.port} speaks TLS", f"use https://127.0.0.1:{server.port}")
        assert server.seen == []


def test_a_certificate_that_is_not_trusted_is_no_wrong_scheme(tls: ssl.SSLContext) -> None:
    with FakeServer(tls=tls).running() as server:
        assert "certificate is not trusted" in refusal(server.url).what


def test_a_server_of_plain_http_that_refuses_a_request_is_not_sent_to_tls() -> None:
    with FakeServer({"GET /v2": status(400, b"{}")}).running() as server:
        assert "speaks TLS" not in refusal(f"http://127.0.0.1:{server.port}").what


def test_a_metrics_page_that_is_named_with_the_wrong_scheme_says_what_to_type() -> None:
    with fake_triton() as triton:
        named = SourceOptions(timeout=2.0, metrics_url=f"https://127.0.0.1:{triton.port + 2}/metrics")
        with pytest.raises(CollectError) as caught:
            discover(f"http://127.0.0.1:{triton.port}", named)
    assert caught.value.hint == f"use http://127.0.0.1:{triton.port + 2}/metrics"


def test_a_port_that_hangs_up_on_tls_may_speak_plain_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    connection.recv(1024)
                    connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(ReadFailure) as failed:
            HttpReader(QUICK).read("GET", f"https://127.0.0.1:{listening.getsockname()[1]}/x")
    assert failed.value.reason == "the port ended the TLS handshake: if it speaks plain HTTP, use http://"
