"""A reverse proxy that hands on what is below a path, with that path or without it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OWN = frozenset({"connection", "transfer-encoding", "keep-alive"})


@contextmanager
def proxy(port: int, path: str, *, strips: bool) -> Iterator[str]:
    """Stand before the service at `port`; return the address of `path`, below which it is reached."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self.path.startswith(f"{path}/"):
                self.send_error(404, "not below the path")
                return
            requested = self.path.removeprefix(path) if strips else self.path
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            upstream.request("GET", requested, headers=dict(self.headers))
            answer = upstream.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {*_OWN, "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            upstream.close()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{path}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
