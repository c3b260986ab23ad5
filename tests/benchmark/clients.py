"""What clients send where requests differ from each other, or there is more than one server."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import urllib3

from diagnostics.demo.driving import Action, run_load
from diagnostics.demo.load import LoadProfile, Pattern, SentRequest, schedule
from tests.benchmark.draws.base import Drawn, Traffic

# Long after any drawn queue, and short enough to end a recording in which nothing is answered any more.
PATIENCE_SECONDS = 15.0
_IN_FLIGHT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request: to whom, its body, and seconds that the client waits before it."""

    url: str
    model: str
    body: bytes
    pause: float = 0.0


def send(drawn: Drawn, urls: Sequence[str], actions: Sequence[Action]) -> list[SentRequest]:
    """Send what the clients of an incident send, and return what they saw."""
    if len(urls) == 1 and drawn.traffic == Traffic() and not drawn.by_hand:
        return run_load(urls[0], drawn.load, actions=actions, request_timeout=PATIENCE_SECONDS)
    chance, local, started = random.Random(drawn.load.seed), threading.local(), time.monotonic()

    def one(due: float, chain: Sequence[Ask]) -> list[SentRequest]:
        time.sleep(max(0.0, started + due - time.monotonic()))
        return [_ask(local, ask) for ask in chain]

    def loop(ask: Ask) -> list[SentRequest]:
        records = []
        while time.monotonic() - started < drawn.load.duration:
            records.append(_ask(local, ask))
        return records

    with ThreadPoolExecutor(max_workers=_IN_FLIGHT) as pool:
        if drawn.load.pattern is Pattern.CLOSED:
            ask = _plain(drawn, urls[0], 0.0, chance)
            results = [pool.submit(loop, ask) for _ in range(drawn.load.concurrency)]
        else:
            results = [
                pool.submit(one, due, _chain(drawn, urls, number, due, chance))
                for number, due in enumerate(_dues(drawn))
            ]
        for action in sorted(actions, key=lambda action: action.at):
            time.sleep(max(0.0, started + action.at - time.monotonic()))
            action.do()
    return sorted((record for result in results for record in result.result()), key=lambda record: record.t)


def _dues(drawn: Drawn) -> Iterator[float]:
    rises, load = drawn.traffic.rises, drawn.load
    if rises == 1.0:
        yield from schedule(load)
        return
    half = load.duration / 2
    yield from schedule(replace(load, duration=half))
    later = LoadProfile(model=load.model, rate=load.rate * rises, duration=half, seed=load.seed + 1)
    yield from (half + due for due in schedule(later))


def _chain(drawn: Drawn, urls: Sequence[str], number: int, due: float, chance: random.Random) -> list[Ask]:
    url = chance.choices(urls, drawn.shares)[0]
    if drawn.by_hand:
        models = [stage.name for stage in drawn.deployment.stages]
        if drawn.deployment.engine is not None:
            models.insert(drawn.deployment.engine_after + 1, drawn.deployment.engine.name)
        return [Ask(url=url, model=model, body=_body(1, 4, {})) for model in models]
    if not drawn.traffic.turns:
        return [_plain(drawn, url, due, chance)]
    last = drawn.traffic.turns - 1
    return [
        Ask(
            url=url,
            model=drawn.load.model,
            body=_body(1, 4, {"sequence_id": number + 1, "sequence_start": turn == 0, "sequence_end": turn == last}),
            pause=drawn.traffic.pause if turn else 0.0,
        )
        for turn in range(last + 1)
    ]


def _plain(drawn: Drawn, url: str, due: float, chance: random.Random) -> Ask:
    traffic = drawn.traffic
    rows = traffic.rows if due < drawn.load.duration / 2 else traffic.rows_later
    priority = {} if traffic.high is None else {"priority": 1 if chance.random() < traffic.high else 2}
    return Ask(url=url, model=drawn.load.model, body=_body(rows, traffic.values, priority))


def _body(rows: int, values: int, parameters: Mapping[str, object]) -> bytes:
    data = [round(0.123 + number / 7, 5) for number in range(values)] * rows
    tensor = {"name": "IN", "datatype": "FP32", "shape": [rows, values], "data": data}
    return json.dumps({"inputs": [tensor], "parameters": dict(parameters)}).encode()


def _ask(local: threading.local, ask: Ask) -> SentRequest:
    if not hasattr(local, "http"):
        local.http = urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS)
    time.sleep(ask.pause)
    sent, code = time.time(), 0
    try:
        code = local.http.request("POST", f"{ask.url}/v2/models/{ask.model}/infer", body=ask.body).status
    except urllib3.exceptions.HTTPError:
        local.http.clear()
    return SentRequest(t=sent, model=ask.model, ms=(time.time() - sent) * 1e3, ok=code == 200, code=code)
