"""What the clients of the real engine send: texts to the ensemble, ids to an engine or the encoder alone."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp

from diagnostics.loadgen.load import LoadProfile, Pattern, SentRequest, schedule
from diagnostics.loadgen.pacing import event_loop
from tests.benchmark.engine.world import ENCODER, ENGINE, ENSEMBLE, VOCABULARY, Deployment, Load, text
from tests.loadgen.posting import Clients, Post

_IN_FLIGHT = 400
_VARIANTS = 40


@dataclass(kw_only=True)
class Streaming(Clients):
    """Clients that also keep when the first piece of each answer came: `first` holds milliseconds, in order."""

    first: list[tuple[SentRequest, float]] = field(default_factory=list)

    async def _post(self, post: Post) -> int:
        begun, came = time.time(), 0.0
        try:
            async with self._session.post(post.url, data=post.body, headers=post.headers) as answer:
                async for _ in answer.content.iter_any():
                    came = came or (time.time() - begun) * 1e3
                code = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            code = 0
        ms = (time.time() - begun) * 1e3
        self.first.append((SentRequest(t=begun, model=post.model, ms=ms, ok=code == 200, code=code), came or ms))
        return code


def send(
    loads: Sequence[Load], deployment: Deployment, url: str, seconds: float, seed: int
) -> list[tuple[SentRequest, float]]:
    """Send what all streams send; return what clients saw and milliseconds to the first piece, in order of sending."""
    groups = [_Stream(load, deployment, url, seconds, seed + 100 * number) for number, load in enumerate(loads)]
    clients = [group.clients() for group in groups]

    async def together() -> None:
        await asyncio.gather(*(one.run() for one in clients))

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(together())
    return sorted((seen for one in clients for seen in one.first), key=lambda seen: seen[0].t)


class _Stream:
    def __init__(self, load: Load, deployment: Deployment, url: str, seconds: float, seed: int) -> None:
        self.load, self.seconds, self.seed = load, seconds, seed
        self.end, self.begun = load.end or seconds, time.monotonic()
        streams = deployment.engine.streams and load.model in (ENSEMBLE, ENGINE)
        verb = "generate_stream" if streams else "infer"
        self.url, self.head = f"{url}/v2/models/{load.model}/{verb}", deployment.head
        chance = random.Random(seed)
        self.bodies = {
            wanted: [self._body(chance, wanted, streams=streams) for _ in range(_VARIANTS)]
            for wanted in {load.wanted, load.later or load.wanted}
        }

    def clients(self) -> Streaming:
        load = self.load
        return Streaming(
            chain=self._turn,
            seconds=self.end - load.start if load.clients else self.end,
            arrivals=None if load.clients else list(self._dues()),
            clients=load.clients or _IN_FLIGHT,
            patience=load.patience,
            start=load.start if load.clients else 0.0,
        )

    def _dues(self) -> Iterator[float]:
        load = self.load
        profile = LoadProfile(
            model=load.model,
            pattern=Pattern.BURST if load.burst > 1 else Pattern.POISSON,
            rate=load.rate,
            burst=load.burst,
            duration=self.end - load.start,
            seed=self.seed,
        )
        yield from (load.start + due for due in schedule(profile))

    def _turn(self, number: int) -> Iterator[Post]:
        load = self.load
        late = load.later and time.monotonic() - self.begun > self.seconds / 2
        bodies = self.bodies[load.later if late else load.wanted]
        yield Post(url=self.url, model=load.model, body=bodies[number % _VARIANTS])
        if load.think:
            yield Post(pause=load.think * (0.5 + (number * 0.618) % 1.0))

    def _body(self, chance: random.Random, wanted: int, *, streams: bool) -> bytes:
        load = self.load
        words = round(load.words * chance.uniform(0.9, 1.1))
        if load.model == ENSEMBLE:
            if streams:
                return json.dumps({"TEXT": text(chance, words), "MAX_TOKENS": wanted}).encode()
            inputs = [
                _tensor("TEXT", "BYTES", [1, 1], [text(chance, words)]),
                _tensor("MAX_TOKENS", "INT32", [1, 1], [wanted]),
            ]
        elif load.model == ENCODER:
            ids = [chance.randrange(VOCABULARY) for _ in range(self.head)]
            inputs = [_tensor("HEAD_IDS", "INT32", [load.rows, self.head], ids * load.rows)]
        else:
            ids = [chance.randrange(VOCABULARY) for _ in range(words)]
            if streams:
                return json.dumps({"INPUT_IDS": ids, "MAX_TOKENS": wanted, "VERDICT": 1.0}).encode()
            inputs = [
                _tensor("INPUT_IDS", "INT32", [1, len(ids)], ids),
                _tensor("MAX_TOKENS", "INT32", [1, 1], [wanted]),
                _tensor("VERDICT", "FP32", [1, 1], [1.0]),
            ]
        return json.dumps({"inputs": inputs}).encode()


def _tensor(
    name: str, kind: str, shape: list[int], data: list[object] | list[int] | list[str] | list[float]
) -> dict[str, object]:
    return {"name": name, "datatype": kind, "shape": shape, "data": data}
