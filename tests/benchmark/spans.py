"""A receiver of OTLP exports, for servers that are recorded."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from diagnostics.wire.records import BodyKind, Scrape


class Spans:
    """A receiver that keeps the bodies of OTLP export requests with the Unix seconds at which they came."""

    def __init__(self) -> None:
        kept = self._kept = list[tuple[float, bytes]]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # One packet per answer: of two, the second waits 40 ms for the exporter to acknowledge the first.
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                kept.append((time.time(), body))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def __enter__(self) -> Spans:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def scrapes(self) -> list[Scrape]:
        """Return what came, as records."""
        return [Scrape(server="", kind=BodyKind.TRACES, at=at, mono=at, body=body) for at, body in self._kept]

    def take(self) -> list[Scrape]:
        """Return what came since the last call, as records, and forget it."""
        taken = self.scrapes()
        del self._kept[: len(taken)]
        return taken
