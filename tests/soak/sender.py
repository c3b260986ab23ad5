"""Spans of many Tritons for little: prepared exports in which only the instants and the traces' ids are written anew.

    python -m tests.soak.sender URL SERVERS SPANS_PER_SECOND

Each server exports every five seconds, as Triton does, and calls itself by its address in the fleet. Ends with its
standard input, and then prints what it sent.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import sys
import threading
import time

import urllib3

from tests.builders import START
from tests.builders_traces import Leg, ensemble_trace
from tests.soak import fleet

SECONDS_BETWEEN_EXPORTS = 5.0
LEGS = tuple(Leg(model=f"m0_{n}", queue=0.001, compute=0.004) for n in range(fleet.MEMBERS))
SPANS_A_TRACE = len(ensemble_trace("0" * 32, 0.0, LEGS))
CONNECTIONS = 4
# Stand for what each export writes anew: the first digits of its traces' ids, and its second.
ID, SECOND = "abcdefabcdef", 1_234_567_890


def template(server: int, traces: int) -> bytes:
    """Return one export of a server; all its spans end within one second."""
    at = [SECOND - round(START) + 0.9 * number / traces for number in range(traces)]
    ids = [f"{ID}{server:08x}{number:012x}" for number in range(traces)]
    traces_of = (ensemble_trace(trace, begun, LEGS, name="e0") for trace, begun in zip(ids, at, strict=True))
    spans = [span for trace in traces_of for span in trace]
    about = {"service.name": "triton-inference-server", "service.instance.id": fleet.address(server)}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in about.items()]
    scopes = [{"scope": {"name": "triton-server"}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]}).encode()


def anew(body: bytes, number: int) -> bytes:
    """Return the export with other traces, that ended just now."""
    second = str(int(time.time()) - 1).encode()
    return body.replace(ID.encode(), f"{number:012x}".encode()).replace(str(SECOND).encode(), second)


class Sender:
    """Sends in turn what the servers export."""

    def __init__(self, url: str, servers: int, rate: int) -> None:
        self.sent = self.refused = self.failed = self.late = 0
        self._url = f"{url}/v1/traces"
        self._traces = max(1, round(rate * SECONDS_BETWEEN_EXPORTS / servers / SPANS_A_TRACE))
        self._bodies = [template(server, self._traces) for server in range(servers)]
        self._pause = servers and self._traces * SPANS_A_TRACE / rate
        self._due: queue.Queue[int | None] = queue.Queue()
        self._lock = threading.Lock()

    def run(self, ended: threading.Event) -> None:
        threads = [threading.Thread(target=self._send, daemon=True) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        for number in itertools.count():
            if ended.wait(max(0.0, begun + number * self._pause - time.monotonic())):
                break
            self._due.put(number)
            self.late = max(self.late, self._due.qsize())
        with contextlib.suppress(queue.Empty):
            while True:
                self._due.get_nowait()
        for _ in threads:
            self._due.put(None)
        for thread in threads:
            thread.join()

    def _send(self) -> None:
        with urllib3.PoolManager(retries=False, timeout=20) as pool:
            while (number := self._due.get()) is not None:
                body = anew(self._bodies[number % len(self._bodies)], number)
                try:
                    answer = pool.request("POST", self._url, body=body, headers={"Content-Type": "application/json"})
                    self._count(answer.status, b"rejectedSpans" in answer.data)
                except urllib3.exceptions.HTTPError:
                    self._count(0, rejected=False)

    def _count(self, status: int, rejected: bool) -> None:
        with self._lock:
            self.sent += self._traces * SPANS_A_TRACE
            self.refused += (status in (429, 503) or rejected) * self._traces * SPANS_A_TRACE
            self.failed += status not in (200, 429, 503)


def main() -> None:
    url, servers, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sender, ended = Sender(url, servers, rate), threading.Event()
    working = threading.Thread(target=sender.run, args=(ended,))
    working.start()
    sys.stdin.read()
    ended.set()
    working.join()
    print(json.dumps({"sent": sender.sent, "refused": sender.refused, "failed": sender.failed, "late": sender.late}))


if __name__ == "__main__":
    main()
