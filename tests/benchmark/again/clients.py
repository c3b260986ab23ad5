"""What odd clients send: other connections, other bodies, other versions, and requests asked again."""

from __future__ import annotations

import http.client
import itertools
import json
import queue
import random
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from urllib3.util.wait import wait_for_read

from diagnostics.loadgen.load import LoadProfile, SentRequest, schedule
from tests.benchmark.kinds.clients import send as send_plain
from tests.benchmark.kinds.world import Load

_CHUNKS = 12
_IN_FLIGHT = 200
# From so many numbers on they are sent as bytes, not as text.
_AS_BYTES = 64
_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddLoad(Load):
    """A stream of clients of which something is unusual.

    Attributes:
        factors: factors of the rate in equal parts of the time; empty for an even one.
        connects_ms: each request has a connection of its own, which takes so long to come about; below 0 for one
            that is kept.
        uploads_ms: time over which a body is sent.
        reads_ms: what a client takes for each line of an answer before it reads the next.
        attempts: how often a request is sent at most, when no answer comes before the client's patience ends.
        canary: share of the requests that ask version 2, of those that name a version.
        giants: share of requests that are of `giant_values` numbers.
        begins: share of the recording at which it begins.
        widths: requests are of so many numbers, one width after another; `widths_later` from the share `later` on.
        stamped_from: share of the recording from which on each request differs from all others; 0 for never.
        rows_later: rows from the middle on; 0 for the same.
        as_text: numbers are sent as text however many they are.
        bytes_back: answers are bytes, not text.
        pool: above 0, all requests share so many connections, and the wait for one is part of what a client sees.
        hedges_ms: a request without an answer after so long is sent once more beside the first, from `later` on.
        distinct_later: requests are so many different ones from the share `later` on; 0 for `distinct`.
        hot: share of requests that begin with the number `hot_number`, from the share `later` on.
        freezes_every, freezes_ms: the clients' own process stands still for so long every so many seconds.
        pipe_kbs: answers share a way of so many kilobytes a second, from the share `later` on; 0 for a wide one.
    """

    begins: float = 0.0
    factors: tuple[float, ...] = ()
    connects_ms: float = -1.0
    uploads_ms: float = 0.0
    reads_ms: float = 0.0
    attempts: int = 1
    canary: float = 0.0
    giants: float = 0.0
    giant_values: int = 0
    widths: tuple[int, ...] = ()
    widths_later: tuple[int, ...] = ()
    later: float = 0.0
    stamped_from: float = 0.0
    rows_later: int = 0
    as_text: bool = False
    bytes_back: bool = False
    pool: int = 0
    hedges_ms: float = 0.0
    distinct_later: int = 0
    hot: float = 0.0
    hot_number: float = 0.0
    freezes_every: float = 0.0
    freezes_ms: float = 0.0
    pipe_kbs: float = 0.0


def odd(load: Load, **values: object) -> OddLoad:
    """Return a load with something unusual."""
    own: dict[str, Any] = {each.name: getattr(load, each.name) for each in fields(load)}
    return OddLoad(**{**own, **values})


def send(loads: Sequence[Load], url: str, seconds: float, seed: int) -> list[SentRequest]:
    """Send what all the clients send, and return what they saw, in order of sending."""
    plain = [load for load in loads if not isinstance(load, OddLoad)]
    streams = [
        _OddStream(load, url, seconds, seed + 100 * number)
        for number, load in enumerate(loads)
        if isinstance(load, OddLoad)
    ]
    with ThreadPoolExecutor(max_workers=len(loads)) as pool:
        others = pool.submit(send_plain, plain, url, seconds, seed) if plain else None
        for run in [pool.submit(stream.run) for stream in streams]:
            run.result()
        records = others.result() if others else []
    return sorted([*records, *(record for stream in streams for record in stream.records)], key=lambda record: record.t)


class _OddStream:
    def __init__(self, load: OddLoad, url: str, seconds: float, seed: int) -> None:
        self.load, self.url, self.seconds, self.seed = load, url, seconds, seed
        self.begins, self.started = load.begins * seconds, time.monotonic()
        self.chance, self.local = random.Random(seed), threading.local()
        self.hedging = ThreadPoolExecutor(max_workers=2 * _IN_FLIGHT)
        self.records: list[SentRequest] = []
        self.pipe, self.pipe_free = threading.Lock(), 0.0

    def run(self) -> None:
        """Send all of it, and return when all is answered."""
        load = self.load
        with self.hedging, ThreadPoolExecutor(max_workers=load.pool or load.clients or _IN_FLIGHT) as pool:
            if load.clients:
                work = [pool.submit(self._loop) for _ in range(load.clients)]
            else:
                work = [pool.submit(self._at, due, number) for number, due in enumerate(self._dues())]
            for one in work:
                one.result()

    def _at(self, due: float, number: int) -> None:
        time.sleep(max(0.0, self.started + due - time.monotonic()))
        self._ask(due, number)

    def _loop(self) -> None:
        time.sleep(self.begins)
        for number in itertools.count():
            now = time.monotonic() - self.started
            if now >= self.seconds:
                return
            self._ask(now, number)
            time.sleep(self.load.think * self.chance.uniform(0.5, 1.5))

    def _dues(self) -> Iterator[float]:
        load, factors = self.load, self.load.factors or (1.0,)
        part = (self.seconds - self.begins) / len(factors)
        for number, factor in enumerate(factors):
            if factor:
                profile = LoadProfile(model=load.model, rate=load.rate * factor, duration=part, seed=self.seed + number)
                yield from (self.begins + number * part + due for due in schedule(profile))

    def _ask(self, due: float, number: int) -> None:
        load, model = self.load, self.load.model
        version = (2 if self.chance.random() < load.canary else 1) if load.canary else 0
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
        path += "/generate_stream" if load.stream else "/infer"
        body, headers = self._odd_body(due, number)
        for _ in range(load.attempts):
            # Who waits for a connection of a pool has asked when the request was due.
            self._freeze()
            waits = load.pool or load.freezes_every
            sent = time.time() - (max(0.0, time.monotonic() - self.started - due) if waits else 0.0)
            hedged = load.hedges_ms and due >= load.later * self.seconds
            code = (self._hedged if hedged else self._code)(path, body, headers)
            self._freeze()
            ms = (time.time() - sent) * 1e3
            self.records.append(SentRequest(t=sent, model=model, ms=ms, ok=code == 200, code=code))
            if code == 200:
                break

    def _freeze(self) -> None:
        """Wait until the clients' process goes on, where it stands still now and then."""
        every, ms = self.load.freezes_every, self.load.freezes_ms
        if every and (into := (time.monotonic() - self.started) % every) < ms / 1e3:
            time.sleep(ms / 1e3 - into)

    def _through_pipe(self, size: int) -> None:
        """Wait until an answer of so many bytes has come the way that all answers share."""
        with self.pipe:
            self.pipe_free = max(time.monotonic(), self.pipe_free) + size / (1e3 * self.load.pipe_kbs)
            free = self.pipe_free
        time.sleep(max(0.0, free - time.monotonic()))

    def _hedged(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Send a request, and once more if no answer comes in time; return the status of the first answer."""
        codes: queue.SimpleQueue[int] = queue.SimpleQueue()

        def send_one() -> None:
            codes.put(self._code(path, body, headers))

        self.hedging.submit(send_one)
        try:
            return codes.get(timeout=self.load.hedges_ms / 1e3)
        except queue.Empty:
            self.hedging.submit(send_one)
            return codes.get()

    def _code(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        try:
            return self._once(path, body, headers)
        except (OSError, http.client.HTTPException):
            self._drop()
            return 0

    def _once(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        load = self.load
        if load.connects_ms >= 0:
            self._drop()
            time.sleep(load.connects_ms * self.chance.uniform(0.7, 1.3) / 1e3)
        kept = getattr(self.local, "connection", None)
        if kept is not None and kept.sock is not None and wait_for_read(kept.sock, timeout=0.0):
            # The server has closed it: only an end can be read of a connection that waits for no answer.
            self._drop()
        if getattr(self.local, "connection", None) is None:
            address = urlsplit(self.url)
            self.local.connection = http.client.HTTPConnection(
                address.hostname or "", address.port, timeout=load.patience
            )
        connection = self.local.connection
        if load.uploads_ms:
            headers = {**headers, "Content-Length": str(len(body))}
            connection.request("POST", path, body=self._slowly(body), headers=headers)
        else:
            connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        while load.reads_ms and response.readline():
            time.sleep(load.reads_ms / 1e3)
        size = len(response.read())
        if load.pipe_kbs and time.monotonic() - self.started >= load.later * self.seconds:
            self._through_pipe(size)
        return int(response.status)

    def _drop(self) -> None:
        if getattr(self.local, "connection", None) is not None:
            self.local.connection.close()
        self.local.connection = None

    def _slowly(self, body: bytes) -> Iterator[bytes]:
        size = max(1, -(-len(body) // _CHUNKS))
        for at in range(0, len(body), size):
            time.sleep(self.load.uploads_ms / 1e3 / _CHUNKS)
            yield body[at : at + size]

    def _odd_body(self, due: float, number: int) -> tuple[bytes, dict[str, str]]:
        load, values, rows = self.load, self.load.values, self.load.rows
        if load.stream:
            return json.dumps({"IN": [0.5] * values}).encode(), {}
        widths = load.widths_later if load.widths_later and due >= load.later * self.seconds else load.widths
        if widths:
            values = widths[number % len(widths)]
        if load.giants and self.chance.random() < load.giants:
            values = load.giant_values
        if load.rows_later and due >= self.seconds / 2:
            rows = load.rows_later
        distinct = load.distinct_later if load.distinct_later and due >= load.later * self.seconds else load.distinct
        first = float(number % distinct) if distinct else 0.0
        if load.stamped_from and due >= load.stamped_from * self.seconds:
            first = 1000.0 + number
        if load.hot and due >= load.later * self.seconds and self.chance.random() < load.hot:
            first = load.hot_number
        return _encoded(first, values, rows, as_text=load.as_text, bytes_back=load.bytes_back)


@lru_cache(maxsize=64)
def _encoded(first: float, values: int, rows: int, *, as_text: bool, bytes_back: bool) -> tuple[bytes, dict[str, str]]:
    data = [first, *([0.25] * (values - 1))] * rows
    tensor: dict[str, object] = {"name": "IN", "datatype": "FP32", "shape": [rows, values]}
    if as_text or len(data) < _AS_BYTES:
        back = {"parameters": {"binary_data_output": True}} if bytes_back else {}
        return json.dumps({"inputs": [{**tensor, "data": data}], **back}).encode(), {}
    tensor["parameters"] = {"binary_data_size": 4 * len(data)}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return head + struct.pack(f"<{len(data)}f", *data), {_LENGTH: str(len(head))}
