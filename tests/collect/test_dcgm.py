from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from diagnostics.errors import UsageError
from diagnostics.wire.capture import CaptureWriter, open_capture
from diagnostics.wire.gpu import parse_dcgm
from diagnostics.wire.records import BodyKind
from exporters.sources.access import SourceOptions
from exporters.sources.dcgm import DcgmPage, dcgm_page

PAGE = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="node7"} 42\n'


class Exporter(ThreadingHTTPServer):
    """Answers its metrics path with a page, and keeps the headers it was sent."""

    seen: list[dict[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Exporter

    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers))
        found = self.path == "/metrics"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(PAGE if found else b"nothing here")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter(("127.0.0.1", 0), Handler)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def at(server: Exporter, path: str = "") -> str:
    return f"127.0.0.1:{server.server_address[1]}{path}"


@pytest.mark.parametrize("path", ["", "/metrics"])
def test_an_exporters_page_is_read_and_parsed(exporter: Exporter, path: str):
    (scrape,) = DcgmPage(at(exporter, path), SourceOptions()).round()

    assert (scrape.kind, scrape.server, scrape.error) == (BodyKind.DCGM, "", None)
    assert parse_dcgm(scrape.body, scrape.at).gpus[0].utilization == pytest.approx(0.42)


def test_the_servers_credentials_are_not_shown_to_another_program(exporter: Exporter):
    DcgmPage(at(exporter), SourceOptions(bearer_token="secret", headers={"X-Key": "secret"})).round()

    assert "secret" not in str(exporter.seen)


def test_a_page_that_is_not_there_is_a_scrape_with_its_reason():
    (scrape,) = DcgmPage("127.0.0.1:1", SourceOptions(timeout=0.5)).round()

    assert scrape.body is None
    assert "refused" in scrape.error


def test_without_the_option_there_is_no_such_source():
    assert dcgm_page(SourceOptions()) == []


def test_an_address_that_is_none_is_refused():
    with pytest.raises(UsageError):
        dcgm_page(SourceOptions(dcgm_url="ftp://node7"))


def test_a_page_is_kept_in_a_capture_and_replayed(tmp_path: Path, exporter: Exporter):
    (scrape,) = DcgmPage(at(exporter), SourceOptions()).round()
    with CaptureWriter(tmp_path / "c.tar.gz", "c", ["triton-0"], 1.0) as writer:
        writer.add(scrape)
    (replayed,) = open_capture(tmp_path / "c.tar.gz").scrapes()

    assert (replayed.kind, replayed.body) == (BodyKind.DCGM, PAGE)
    assert replayed.at == pytest.approx(scrape.at, abs=0.001)
