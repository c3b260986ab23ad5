"""What clients send where requests differ from each other, or there is more than one server."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from diagnostics.loadgen.driving import Action, run_load
from diagnostics.loadgen.load import LoadProfile, Pattern, SentRequest, schedule
from tests.benchmark.draws.base import Drawn, Traffic
from tests.loadgen.posting import Clients, Post, send_all

# Long after any drawn queue, and short enough to end a recording in which nothing is answered any more.
PATIENCE_SECONDS = 15.0
_IN_FLIGHT = 256


def send(drawn: Drawn, urls: Sequence[str], actions: Sequence[Action]) -> list[SentRequest]:
    """Send what the clients of an incident send, and return what they saw."""
    if len(urls) == 1 and drawn.traffic == Traffic() and not drawn.by_hand:
        return run_load(urls[0], drawn.load, actions=actions, request_timeout=PATIENCE_SECONDS)
    started = time.monotonic()
    with ThreadPoolExecutor(max_workers=1) as pool:
        result = pool.submit(send_all, [_clients(drawn, urls)])
        for action in sorted(actions, key=lambda action: action.at):
            time.sleep(max(0.0, started + action.at - time.monotonic()))
            action.do()
        return result.result()


def _clients(drawn: Drawn, urls: Sequence[str]) -> Clients:
    chance, load = random.Random(drawn.load.seed), drawn.load
    if load.pattern is Pattern.CLOSED:
        arrivals, chains = None, [[_plain(drawn, urls[0], 0.0, chance)]]
    else:
        arrivals = list(_dues(drawn))
        chains = [_chain(drawn, urls, number, due, chance) for number, due in enumerate(arrivals)]
    return Clients(
        chain=lambda number: chains[number % len(chains)],
        seconds=load.duration,
        arrivals=arrivals,
        clients=load.concurrency or _IN_FLIGHT,
        patience=PATIENCE_SECONDS,
    )


def _dues(drawn: Drawn) -> Iterator[float]:
    rises, load = drawn.traffic.rises, drawn.load
    if rises == 1.0:
        yield from schedule(load)
        return
    half = load.duration / 2
    yield from schedule(replace(load, duration=half))
    later = LoadProfile(model=load.model, rate=load.rate * rises, duration=half, seed=load.seed + 1)
    yield from (half + due for due in schedule(later))


def _chain(drawn: Drawn, urls: Sequence[str], number: int, due: float, chance: random.Random) -> list[Post]:
    url = chance.choices(urls, drawn.shares)[0]
    if drawn.by_hand:
        models = [stage.name for stage in drawn.deployment.stages]
        if drawn.deployment.engine is not None:
            models.insert(drawn.deployment.engine_after + 1, drawn.deployment.engine.name)
        return [_post(url, model, _body(1, 4, {})) for model in models]
    if not drawn.traffic.turns:
        return [_plain(drawn, url, due, chance)]
    last = drawn.traffic.turns - 1
    return [
        _post(
            url,
            drawn.load.model,
            _body(1, 4, {"sequence_id": number + 1, "sequence_start": turn == 0, "sequence_end": turn == last}),
            pause=drawn.traffic.pause if turn else 0.0,
        )
        for turn in range(last + 1)
    ]


def _plain(drawn: Drawn, url: str, due: float, chance: random.Random) -> Post:
    traffic = drawn.traffic
    rows = traffic.rows if due < drawn.load.duration / 2 else traffic.rows_later
    priority = {} if traffic.high is None else {"priority": 1 if chance.random() < traffic.high else 2}
    return _post(url, drawn.load.model, _body(rows, traffic.values, priority))


def _post(url: str, model: str, body: bytes, pause: float = 0.0) -> Post:
    return Post(url=f"{url}/v2/models/{model}/infer", model=model, body=body, pause=pause)


def _body(rows: int, values: int, parameters: Mapping[str, object]) -> bytes:
    data = [round(0.123 + number / 7, 5) for number in range(values)] * rows
    tensor = {"name": "IN", "datatype": "FP32", "shape": [rows, values], "data": data}
    return json.dumps({"inputs": [tensor], "parameters": dict(parameters)}).encode()
