"""What the clients of a drawn kind send."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from diagnostics.loadgen.load import LoadProfile, Pattern, SentRequest, schedule
from tests.benchmark.hop import Hop
from tests.benchmark.kinds.world import Load
from tests.loadgen.posting import Clients, Post, send_all

_IN_FLIGHT = 200
# From so many numbers on they are sent as bytes, not as text.
_AS_BYTES = 64
_LENGTH = "Inference-Header-Content-Length"


def send(loads: Sequence[Load], url: str, seconds: float, seed: int) -> list[SentRequest]:
    """Send what all the clients of an incident send, and return what they saw, in order of sending."""
    with ExitStack() as stack:
        groups = []
        for number, load in enumerate(loads):
            way = stack.enter_context(Hop(url, load.hop_ms)).url if load.hop_ms else url
            groups.append(_Stream(load, way, seconds, seed + 100 * number).clients())
        return send_all(groups)


class _Stream:
    def __init__(self, load: Load, url: str, seconds: float, seed: int) -> None:
        self.load, self.url, self.started = load, url, time.monotonic()
        self.end, self.middle = load.end or seconds, seconds / 2
        self.chance, self.seed = random.Random(seed), seed

    def clients(self) -> Clients:
        load = self.load
        return Clients(
            chain=self._thinking if load.clients else self._turn,
            seconds=self.end - load.start if load.clients else self.end,
            arrivals=None if load.clients else list(self._dues()),
            clients=load.clients or _IN_FLIGHT,
            patience=load.patience,
            start=load.start if load.clients else 0.0,
        )

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

    def _turn(self, number: int) -> Iterator[Post]:
        load = self.load
        if not load.turns:
            for model in load.by_hand or (load.model,):
                yield self._post(model, number, {})
            return
        last = load.turns - (2 if self.chance.random() < load.left_open else 1)
        for turn in range(last + 1):
            ends = turn == load.turns - 1
            own = {"sequence_id": number + 1, "sequence_start": turn == 0, "sequence_end": ends}
            yield self._post(load.model, number, own, pause=load.pause if turn else 0.0)

    def _thinking(self, number: int) -> Iterator[Post]:
        yield self._post(self.load.model, number, {})
        yield Post(pause=self.load.think * self.chance.uniform(0.5, 1.5))

    def _post(self, model: str, number: int, parameters: dict[str, object], pause: float = 0.0) -> Post:
        load = self.load
        if load.high is not None:
            parameters = {**parameters, "priority": 1 if self.chance.random() < load.high else 2}
        later = load.version_later and time.monotonic() - self.started >= self.middle
        version = load.version_later if later else load.version
        path = f"{self.url}/v2/models/{model}" + (f"/versions/{version}" if version else "")
        if load.stream:
            body = json.dumps({"IN": [0.5] * load.values}).encode()
            return Post(url=f"{path}/generate_stream", model=model, body=body, pause=pause)
        body, headers = self._body(number, parameters)
        return Post(url=f"{path}/infer", model=model, body=body, headers=headers, pause=pause)

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
