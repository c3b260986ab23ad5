"""What the clients of a drawn kind send."""

from __future__ import annotations

import json
import random
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import urllib3

from diagnostics.demo.load import LoadProfile, Pattern, SentRequest, schedule
from tests.benchmark.hop import Hop
from tests.benchmark.kinds.world import Load

_IN_FLIGHT = 200
# From so many numbers on they are sent as bytes, not as text.
_AS_BYTES = 64
_LENGTH = "Inference-Header-Content-Length"


def send(loads: Sequence[Load], url: str, seconds: float, seed: int) -> list[SentRequest]:
    """Send what all the clients of an incident send, and return what they saw, in order of sending."""
    started = time.monotonic()
    with ExitStack() as stack:
        streams = []
        for number, load in enumerate(loads):
            way = stack.enter_context(Hop(url, load.hop_ms)).url if load.hop_ms else url
            streams.append(_Stream(load, way, seconds, seed + 100 * number, started))
        threads = [threading.Thread(target=stream.run) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted((record for stream in streams for record in stream.records), key=lambda record: record.t)


class _Stream:
    def __init__(self, load: Load, url: str, seconds: float, seed: int, started: float) -> None:
        self.load, self.url, self.started = load, url, started
        self.end, self.middle = load.end or seconds, seconds / 2
        self.chance, self.seed, self.local = random.Random(seed), seed, threading.local()
        self.records: list[SentRequest] = []

    def run(self) -> None:
        with ThreadPoolExecutor(max_workers=_IN_FLIGHT) as pool:
            if self.load.clients:
                work: list[Future[None]] = [pool.submit(self._loop) for _ in range(self.load.clients)]
            else:
                work = [pool.submit(self._at, due, number) for number, due in enumerate(self._dues())]
            for one in work:
                one.result()

    def _dues(self) -> Iterator[float]:
        load, seconds = self.load, self.end - self.load.start
        pattern = Pattern.BURST if load.burst > 1 else Pattern.POISSON
        parts = [(0.0, 1.0)] if load.rises == 1.0 else [(0.0, 1.0), (0.5, load.rises)]
        share = 1.0 / len(parts)
        rate = load.rate / (load.turns or 1)
        for number, (begins, times) in enumerate(parts):
            profile = LoadProfile(
                model=load.model,
                pattern=pattern,
                rate=rate * times,
                burst=load.burst,
                duration=seconds * share,
                seed=self.seed + number,
            )
            yield from (load.start + begins * seconds + due for due in schedule(profile))

    def _at(self, due: float, number: int) -> None:
        time.sleep(max(0.0, self.started + due - time.monotonic()))
        load = self.load
        if not load.turns:
            for model in load.by_hand or (load.model,):
                self._ask(model, due, number, {})
            return
        last = load.turns - (2 if self.chance.random() < load.left_open else 1)
        for turn in range(last + 1):
            time.sleep(load.pause if turn else 0.0)
            ends = turn == load.turns - 1
            own = {"sequence_id": number + 1, "sequence_start": turn == 0, "sequence_end": ends}
            self._ask(load.model, due, number, own)

    def _loop(self) -> None:
        time.sleep(max(0.0, self.started + self.load.start - time.monotonic()))
        number = 0
        while time.monotonic() - self.started < self.end:
            self._ask(self.load.model, time.monotonic() - self.started, number, {})
            number += 1
            time.sleep(self.load.think * self.chance.uniform(0.5, 1.5))

    def _ask(self, model: str, due: float, number: int, parameters: dict[str, object]) -> None:
        load = self.load
        if load.high is not None:
            parameters = {**parameters, "priority": 1 if self.chance.random() < load.high else 2}
        version = load.version_later if load.version_later and due >= self.middle else load.version
        path = f"{self.url}/v2/models/{model}" + (f"/versions/{version}" if version else "")
        body, headers = self._body(number, parameters)
        if load.stream:
            body, headers = json.dumps({"IN": [0.5] * load.values}).encode(), {}
        if not hasattr(self.local, "http"):
            self.local.http = urllib3.PoolManager(retries=False, timeout=load.patience)
        sent, code = time.time(), 0
        try:
            verb = "generate_stream" if load.stream else "infer"
            code = self.local.http.request("POST", f"{path}/{verb}", body=body, headers=headers).status
        except urllib3.exceptions.HTTPError:
            self.local.http.clear()
        ms = (time.time() - sent) * 1e3
        self.records.append(SentRequest(t=sent, model=model, ms=ms, ok=code == 200, code=code))

    def _body(self, number: int, parameters: dict[str, object]) -> tuple[bytes, dict[str, str]]:
        load = self.load
        first = number % load.distinct if load.distinct else 0
        count = load.rows * load.values
        tensor: dict[str, object] = {"name": "IN", "datatype": "FP32", "shape": [load.rows, load.values]}
        if count < _AS_BYTES:
            tensor["data"] = [float(first), *([0.25] * (load.values - 1))] * load.rows
            return json.dumps({"inputs": [tensor], "parameters": parameters}).encode(), {}
        tensor["parameters"] = {"binary_data_size": 4 * count}
        requested = {"inputs": [tensor], "parameters": {**parameters, "binary_data_output": True}}
        head = json.dumps(requested).encode()
        return head + struct.pack("<f", 0.25) * count, {_LENGTH: str(len(head))}
