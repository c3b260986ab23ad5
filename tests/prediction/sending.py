"""The client: a process of its own, so that nothing else that the benchmark does makes requests late.

Reads one `Order` from standard input. Writes the Unix seconds of its start, and at the end a JSON array with a row per
request: seconds from the start at which it was sent, how much later than due, seconds to the answer, HTTP status (0
where none came).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import urllib3

# Long after any drawn queue, and short enough to end a run in which nothing is answered any more.
PATIENCE_SECONDS = 20.0
# Threads, each with a connection of its own; more requests are never out at once in a run that keeps up.
_IN_FLIGHT = 256
# Until the threads have started and the server has seen a first request.
_LEAD_SECONDS = 0.5
Row = tuple[float, float, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to send: `arrivals` in seconds from the start, or as many `clients` in a closed loop for `seconds`."""

    url: str
    width: int
    seconds: float
    arrivals: Sequence[float] = ()
    clients: int = 0


class _Client:
    def __init__(self, order: Order) -> None:
        data = [round(0.123 + number / 7, 5) for number in range(order.width)]
        tensor = {"name": "IN", "datatype": "FP32", "shape": [1, order.width], "data": data}
        self._body = json.dumps({"inputs": [tensor]}).encode()
        self._url, self._local = order.url, threading.local()
        self.started = time.monotonic() + _LEAD_SECONDS

    def ask(self, due: float | None = None) -> Row:
        if not hasattr(self._local, "http"):
            self._local.http = urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS)
        sent, code = time.monotonic() - self.started, 0
        try:
            code = self._local.http.request("POST", self._url, body=self._body).status
        except urllib3.exceptions.HTTPError:
            self._local.http.clear()
        late = 0.0 if due is None else sent - due
        return round(sent, 6), round(late, 6), round(time.monotonic() - self.started - sent, 6), code

    def loop(self, until: float) -> list[Row]:
        self.wait(0.0)
        rows = []
        while time.monotonic() - self.started < until:
            rows.append(self.ask())
        return rows

    def wait(self, due: float) -> None:
        time.sleep(max(0.0, self.started + due - time.monotonic()))


def send(order: Order) -> list[Row]:
    """Send what is ordered and return a row per request, in order of sending."""
    client = _Client(order)
    print(time.time() + _LEAD_SECONDS, flush=True)
    with ThreadPoolExecutor(max_workers=order.clients or _IN_FLIGHT) as pool:
        if order.clients:
            loops = [pool.submit(client.loop, order.seconds) for _ in range(order.clients)]
            return sorted(row for loop in loops for row in loop.result())
        answers = []
        for due in order.arrivals:
            client.wait(due)
            answers.append(pool.submit(client.ask, due))
        return [answer.result() for answer in answers]


if __name__ == "__main__":
    print(json.dumps(send(msgspec.json.decode(sys.stdin.buffer.read(), type=Order))))
