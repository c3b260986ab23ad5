"""An address that takes messages, and remembers them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hook:
    """Answers every POST with `status`, and keeps what it took."""

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.answer = b""
        self.seen = 0
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.times: list[float] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.seen += 1
                if hook.status < 300:
                    hook.times.append(time.time())
                    hook.taken.append((dict(self.headers), body))
                self.send_response(hook.status)
                self.send_header("Content-Length", str(len(hook.answer)))
                self.end_headers()
                self.wfile.write(hook.answer)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def changes(self) -> list[str]:
        return [json.loads(body)["change"] for _, body in self.taken]


@contextlib.contextmanager
def listening(port: int = 0) -> Iterator[Hook]:
    made = Hook(port)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
