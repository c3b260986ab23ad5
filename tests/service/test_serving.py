"""The service as a process of its own, over real sockets: signals, kills, and servers that misbehave."""

from __future__ import annotations

import html
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.collect.fake_triton import FakeServer, FakeTriton, dripping, fake_triton, free_ports, silent, status
from tests.soak.forking import Forks
from tests.soak.killing import killed_again_and_again
from tests.soak.moving import MovingTriton
from tests.soak.running import Serving, serving, until

pytestmark = pytest.mark.live
MOST_BYTES = 400e6


def settings(folder: Path, port: int, *urls: str) -> Path:
    listed = "".join(f'[[server]]\nurl = "{url}"\n' for url in urls)
    file = folder / "diag.toml"
    file.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "1s"\ntimeout = "0.5s"\n'
        f'[history]\ndirectory = "{folder}/data"\n{listed}'
    )
    return file


def url_of(fake: FakeTriton) -> str:
    return f"http://127.0.0.1:{fake.port}"


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    with fake_triton() as fake:
        yield fake


def targets(service: Serving) -> dict[str, dict[str, object]]:
    return {one["url"]: one for one in service.json("/api/v1/targets")}


def test_signals_reload_and_end_it(tmp_path: Path, triton: FakeTriton):
    port = free_ports(1)
    file = settings(tmp_path, port, url_of(triton))
    with fake_triton() as other, serving(file, port) as service:
        until(lambda: url_of(triton) in targets(service), 10, "the first round")

        settings(tmp_path, port, url_of(triton), url_of(other))
        service.process.send_signal(signal.SIGHUP)
        until(lambda: set(targets(service)) == {url_of(triton), url_of(other)}, 10, "the new server")

        file.write_text("[collect]\ninterval = 'soon'\n")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "the settings stay as they were" in service.log.read_text(), 10, "the refusal")
        file.write_text("")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "there is no server to watch" in service.log.read_text(), 10, "the refusal of an empty file")
        assert set(targets(service)) == {url_of(triton), url_of(other)}
        assert service.samples("diag_errors_total")['part="reload"'] == 2

        settings(tmp_path, port, url_of(other))
        service.process.send_signal(signal.SIGHUP)
        until(lambda: set(targets(service)) == {url_of(other)}, 10, "the end of the first server")
        assert service.end() == 0
    assert "Traceback" not in service.log.read_text()
    assert service.log.read_text().count("msg=ended") == 1


def test_killed_at_random_moments_it_loses_no_incident_and_no_alert(tmp_path: Path, program: Forks):
    with MovingTriton(60).running() as moving:
        killed_again_and_again(tmp_path, 3, program, moving)


def huge(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(2**30))
    handler.end_headers()
    for _ in range(1024):
        handler.wfile.write(b"#" * 2**20)


def speaks_no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76")


def test_servers_that_misbehave_are_reported_of_and_cost_the_others_nothing(
    tmp_path: Path, triton: FakeTriton, program: Forks
):
    release = threading.Event()
    bad = {
        "hangs": silent(release),
        "drips": dripping(release),
        "sends 1 GB": huge,
        "redirects": status(302, Location="http://127.0.0.1:1/metrics"),
        "flips to TLS": speaks_no_http,
    }
    fakes = [fake_triton() for _ in bad]
    begun = [fake.__enter__() for fake in fakes]
    port = free_ports(1)
    file = settings(tmp_path, port, url_of(triton), *map(url_of, begun))
    try:
        with program.serving(file) as service:
            until(lambda: sum(bool(one["up"]) for one in targets(service).values()) == 6, 15, "every server")
            for fake, answer in zip(begun, bad.values(), strict=True):
                for part in (fake.api, fake.metrics):
                    assert isinstance(part, FakeServer)
                    part.routes = dict.fromkeys(part.routes, answer)
            until(lambda: sum(bool(one["up"]) for one in targets(service).values()) == 1, 15, "their failure")
            sound = targets(service)[url_of(triton)]
            assert sound["up"]
            until(lambda: targets(service)[url_of(triton)]["last_round"] > sound["last_round"] + 2, 10, "more rounds")
            reported = {url: one["error"] for url, one in targets(service).items() if not one["up"]}
            assert all(reported.values()), reported
            page = html.unescape(service.ask("/").decode())
            assert [why for why in reported.values() if why not in page] == []
            failed = service.samples("diag_rounds_total")
            assert all(failed[f'outcome="failed",server="{url}"'] >= 1 for url in reported)
            assert service.resident_bytes() < MOST_BYTES
            release.set()
            assert service.end() == 0
        assert "Traceback" not in service.log.read_text()
    finally:
        release.set()
        for fake in fakes:
            fake.__exit__(None, None, None)
