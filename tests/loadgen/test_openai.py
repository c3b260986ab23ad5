"""Load on OpenAI's API: what is sent, what counts as an answer, and what a server refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from diagnostics.bench.report import TargetResult, parse_report
from tests.loadgen.fake_server import TOKENS, FakeTriton
from tests.loadgen.test_sending import bench

# From the first event, which names only who answers, to the first token.
PREFILL = 0.02
OPTIONS = ("--concurrency", "2", "--blocks", "1", "--output", "json")


@dataclass
class FakeOpenAi(FakeTriton):
    """Serves models as `/v1` has it.

    Attributes:
        models: their names.
        unknown: fields that it refuses.
        cut: whether streams end before their last event.

    """

    models: Sequence[str] = ("tiny",)
    unknown: Sequence[str] = ()
    cut: bool = False

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._complete),
            web.post("/v1/completions", self._complete),
        ]

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        body = self.sent[-1]
        if refused := [name for name in self.unknown if name in body]:
            return web.json_response({"error": {"message": f"unknown field {refused[0]}", "code": 400}}, status=400)
        if body.get("stream"):
            return await self._events(request)
        text = {"message": {"role": "assistant", "content": "a b"}} if "messages" in body else {"text": "a b"}
        return web.json_response({"choices": [text], "usage": {"completion_tokens": TOKENS}})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        deltas = [{"role": "assistant", "content": ""}, *[{"content": "a "}] * TOKENS]
        for number, delta in enumerate(deltas):
            await answer.write(b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n")
            await asyncio.sleep(PREFILL if number == 0 else 0.0)
        await answer.write(b'data: {"choices": [], "usage": {"completion_tokens": %d}}\n\n' % TOKENS)
        if not self.cut:
            await answer.write(b"data: [DONE]\n\n")
        return answer


def measured(capsys: pytest.CaptureFixture[str], url: str, *options: str) -> TargetResult:
    code, out, err = bench(capsys, url, *options, *OPTIONS)
    assert code == 0, err
    return parse_report(out.encode(), "out").targets[0]


@pytest.mark.parametrize(("protocol", "prompt"), [("chat", "messages"), ("completions", "prompt")])
def test_answers_are_equally_long_and_the_server_counts_their_tokens(
    protocol: str, prompt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAi().running() as server:
        found = measured(capsys, server.url, "--protocol", protocol, "--max-tokens", "9")

    sent = server.sent[0]
    assert sent.keys() == {"model", prompt, "max_tokens", "min_tokens", "ignore_eos", "temperature"}
    lengths = [sent["max_tokens"], sent["min_tokens"], sent["ignore_eos"], sent["temperature"]]
    assert (sent["model"], lengths) == ("tiny", [9, 9, True, 0])
    (block,) = found.points[0].blocks
    assert (block.tokens, block.failed, block.ttft_p50) == (TOKENS, 0, None)
    assert block.requests > 2
    assert found.workload.counted_by == "completion_tokens"


def test_the_first_token_is_the_first_text_and_not_the_first_event(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAi().running() as server:
        found = measured(capsys, f"{server.url}/v1", "--protocol", "chat", "--streaming")

    assert server.sent[0]["stream_options"] == {"include_usage": True}
    (block,) = found.points[0].blocks
    assert block.tokens == TOKENS
    assert block.ttft_p50 is not None
    assert block.ttft_p50 >= PREFILL
    assert block.tpot is not None


def test_a_server_that_refuses_the_engines_fields_is_asked_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAi(unknown=("min_tokens", "ignore_eos")).running() as server:
        found = measured(capsys, server.url, "--protocol", "chat")

    assert [sorted({"min_tokens", "ignore_eos"} & one.keys()) for one in server.sent[:2]] == [
        ["ignore_eos", "min_tokens"],
        [],
    ]
    assert found.workload.asked == ("max_tokens", "greedy")
    assert found.points[0].blocks[0].failed == 0


def test_what_a_server_refuses_anyway_is_told_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAi(unknown=("max_tokens",)).running() as server:
        code, _, err = bench(capsys, server.url, "--protocol", "chat", *OPTIONS)

    assert code == 2
    assert "tiny refuses the first request: [400] unknown field max_tokens" in err
    assert len(server.bodies) == 2


def test_a_stream_that_is_cut_off_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAi(cut=True).running() as server:
        code, _, err = bench(capsys, server.url, "--protocol", "chat", "--streaming", *OPTIONS)

    assert code == 3
    assert "the stream ended before its last event" in err


@pytest.mark.parametrize(
    ("models", "options", "stated"),
    [
        (("tiny",), ("--model", "huge"), "the server has no model 'huge'; it serves tiny"),
        (("a", "b"), (), "it is not clear which model to ask; choose with --model from a, b"),
        (("tiny",), ("--tokens-from", "x"), "no output 'x'; its outputs are text, completion_tokens"),
    ],
)
def test_what_does_not_fit_the_endpoint_is_refused(
    models: Sequence[str], options: Sequence[str], stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAi(models=models).running() as server:
        code, _, err = bench(capsys, server.url, "--protocol", "chat", *options, *OPTIONS)

    assert code == 2
    assert stated in err
    assert err.count("\n") == 1


def test_an_endpoint_that_is_no_triton_leads_to_the_right_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAi().running() as server:
        code, _, err = bench(capsys, server.url, *OPTIONS)

    assert code == 3
    assert "of an OpenAI endpoint give --protocol chat or completions" in err
