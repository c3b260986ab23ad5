"""The client: a process of its own, so that nothing else that the benchmark does makes requests late.

Reads one `Order` from standard input. Writes the Unix seconds of its start, and at the end a JSON array with a row per
request: seconds from the start at which it was sent, how much later than due, seconds to the answer, HTTP status (0
where none came).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from diagnostics.loadgen.pacing import event_loop
from tests.loadgen.posting import Clients, Post

# Long after any drawn queue, and short enough to end a run in which nothing is answered any more.
PATIENCE_SECONDS = 20.0
# More requests are never out at once in a run that keeps up.
_IN_FLIGHT = 256
Row = tuple[float, float, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to send: `arrivals` in seconds from the start, or as many `clients` in a closed loop for `seconds`."""

    url: str
    width: int
    seconds: float
    arrivals: Sequence[float] = ()
    clients: int = 0


def send(order: Order) -> list[Row]:
    """Send what is ordered and return a row per request, in order of sending."""
    data = [round(0.123 + number / 7, 5) for number in range(order.width)]
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1, order.width], "data": data}
    post = Post(url=order.url, body=json.dumps({"inputs": [tensor]}).encode())
    clients = Clients(
        chain=lambda _: (post,),
        seconds=order.seconds,
        arrivals=None if order.clients else order.arrivals,
        clients=order.clients or _IN_FLIGHT,
        patience=PATIENCE_SECONDS,
    )
    with asyncio.Runner(loop_factory=event_loop) as runner:
        sent = runner.run(clients.run(lambda: print(time.time(), flush=True)))
    rows = (
        (round(one.sent - sent.start, 6), round(one.late, 6), round(one.end - one.sent, 6), one.code)
        for one in sent.answers
    )
    return sorted(rows)


if __name__ == "__main__":
    print(json.dumps(send(msgspec.json.decode(sys.stdin.buffer.read(), type=Order))))
