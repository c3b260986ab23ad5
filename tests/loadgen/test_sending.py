"""Requests, when they are sent, and what comes of a server that answers, refuses or dies."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import diagnostics
from diagnostics.bench.report import parse_report
from diagnostics.cli.main import main
from diagnostics.errors import UsageError
from diagnostics.loadgen.pacing import Pacer, Sent, event_loop
from diagnostics.loadgen.sweep import Plan
from diagnostics.loadgen.transport import Reply
from tests.loadgen.fake_server import TOKENS, FakeTriton, config


class Scripted:
    """A transport whose answers take what a script says, by the number of the request."""

    def __init__(self, takes: Mapping[int, float], reply: Reply | None = None, *, is_alive: bool = False) -> None:
        self.takes, self.reply, self.is_alive = takes, reply or Reply(), is_alive
        self.asked, self.out, self.most_out = 0, 0, 0

    async def ask(self, index: int) -> Reply:
        self.out += 1
        self.most_out = max(self.out, self.most_out)
        number, self.asked = self.asked, self.asked + 1
        await asyncio.sleep(self.takes.get(number, 0.0))
        self.out -= 1
        return self.reply

    async def alive(self) -> bool:
        return self.is_alive


def sent(transport: Scripted, *, seconds: float, clients: int, arrivals: tuple[float, ...] | None = None) -> Sent:
    pacer = Pacer(transport=transport, variants=8, seconds=seconds, clients=clients, count=lambda _: 3)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=event_loop) as runner:
        return runner.run(pacer.run(arrivals))


def test_requests_that_a_stalled_server_holds_up_have_waited_since_they_were_due() -> None:
    arrivals = tuple(number / 100 for number in range(10))
    found = sent(Scripted({0: 0.3}), seconds=0.1, clients=1, arrivals=arrivals)
    latencies = [one.latency for one in sorted(found.answers, key=lambda one: one.due)]
    assert len(latencies) == 10
    # All were due within 0.1 s, and none was answered before 0.3 s: an honest latency is 0.2 s at least.
    assert min(latencies) >= 0.2
    assert found.answers[-1].end - found.answers[-1].sent < 0.2


def test_an_open_loop_does_not_wait_for_answers() -> None:
    transport = Scripted({0: 0.2, 1: 0.2, 2: 0.2})
    found = sent(transport, seconds=0.1, clients=64, arrivals=(0.0, 0.001, 0.002))
    assert transport.most_out == 3
    assert max(one.latency for one in found.answers) < 0.4


def test_a_closed_loop_has_as_many_requests_out_as_clients() -> None:
    transport = Scripted(dict.fromkeys(range(1000), 0.01))
    found = sent(transport, seconds=0.1, clients=3)
    assert transport.most_out == 3
    assert all(one.due <= one.sent for one in found.answers)
    assert {one.tokens for one in found.answers} == {3}


def test_failures_of_a_server_that_is_there_do_not_end_a_run() -> None:
    transport = Scripted({}, Reply(ok=False, code=0, error="reset"), is_alive=True)
    found = sent(transport, seconds=0.12, clients=8)
    assert not found.gone
    assert len(found.answers) > 16


@pytest.mark.parametrize("arrivals", [None, tuple(number / 1000 for number in range(100))])
def test_a_server_that_is_gone_is_not_flooded(arrivals: tuple[float, ...] | None) -> None:
    transport = Scripted({}, Reply(ok=False, code=0, error="refused"))
    found = sent(transport, seconds=30.0, clients=16, arrivals=arrivals)
    assert found.gone
    assert transport.asked <= 32


def test_blocks_are_complete_and_both_targets_get_the_same_arrivals() -> None:
    plan = Plan(loads=(1.0, 2.0, 4.0), closed=False, blocks=2, seconds=10.0, warm_up=2.0)
    order = list(plan.order(2))
    assert sorted(order) == sorted((load, b, t) for load in plan.loads for b in range(2) for t in range(2))
    assert [block for _, block, _ in order] == [0] * 6 + [1] * 6
    assert order != sorted(order)
    assert plan.arrivals(4.0, 0) == plan.arrivals(4.0, 0) != plan.arrivals(4.0, 1)
    assert len(plan.arrivals(4.0, 0)) == 48


@pytest.mark.parametrize(
    ("changed", "stated"),
    [
        ({"loads": (0.0,)}, "is no load"),
        ({"loads": (1.5,)}, "is no load"),
        ({"loads": (513.0,)}, "more than one client can send"),
        ({"loads": (1001.0,), "closed": False}, "more than one client can send"),
        ({"blocks": 0}, "--blocks"),
        ({"seconds": 3600.0}, "a block has 3600 s at most"),
        ({"loads": (1000.0,), "closed": False, "seconds": 3000.0}, "are more than 1,000,000 requests"),
        ({"loads": (0.01, 5.0), "closed": False}, "leave a block of 10 s without a request"),
    ],
)
def test_a_load_that_cannot_be_sent_exactly_is_refused(changed: dict[str, Any], stated: str) -> None:
    with pytest.raises(UsageError, match=stated):
        Plan(**{"loads": (1.0,), "closed": True} | changed)


QUICK = ("--duration", "100ms", "--warm-up", "20ms", "--timeout", "200ms")


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", *arguments, *QUICK])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.parametrize(
    ("options", "streams"),
    [((), False), (("--protocol", "generate"), False), (("--protocol", "generate", "--streaming"), True)],
)
def test_tokens_are_those_that_the_server_counted(
    options: tuple[str, ...], streams: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeTriton().running() as server:
        code, out, err = bench(capsys, server.url, *options, "--concurrency", "2", "--blocks", "1", "--output", "json")
    assert code == 0, err
    (block,) = parse_report(out.encode(), "out").targets[0].points[0].blocks
    assert (block.tokens, block.fewest_tokens, block.most_tokens, block.failed) == (TOKENS, TOKENS, TOKENS, 0)
    assert block.requests > 2
    assert (block.ttft_p50 is not None) is streams
    assert (block.tpot is not None) is streams
    assert "points are not diagnosed" in err


def test_a_target_that_dies_leaves_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeTriton(lives_for=40).running() as server:
        code, out, _ = bench(capsys, server.url, "--rate", "100", "--blocks", "6")
    assert code == 3
    assert "ended early: 127.0.0.1:" in out
    assert "did not answer any more at 100 requests/s" in out
    assert "100 " in out.partition("requests/s")[2]


def test_a_refused_request_is_reported_in_the_servers_words_without_the_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_BEARER_TOKEN", "s3cret-token")
    with FakeTriton(refusal="no such tenant s3cret-token").running() as server:
        code, _, err = bench(capsys, server.url, "--concurrency", "1")
    assert code == 2
    assert server.headers[0]["Authorization"] == "Bearer s3cret-token"
    assert "llm refuses the first request: [400] no such tenant [REDACTED]; give --input, or another --protocol" in err


def test_two_targets_that_take_other_lengths_are_refused_before_any_load(capsys: pytest.CaptureFixture[str]) -> None:
    short = config()
    short["input"] = [field for field in short["input"] if field["name"] not in ("min_tokens", "end_id")]
    with FakeTriton().running() as one, FakeTriton(config=short).running() as other:
        code, _, err = bench(capsys, one.url, other.url, "--concurrency", "1")
    assert code == 2
    assert "asked for: max_tokens, min_tokens, ignore_eos, greedy against max_tokens, greedy" in err
    assert len(one.bodies) == len(other.bodies) == 1


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (("--model", "x"), "no model 'x' that is ready; it has llm"),
        (("--tokens-from", "x"), "no output 'x'; its outputs are text_output, num_output_tokens"),
        (("--streaming",), "use --protocol generate, grpc, chat or completions"),
        (("--protocol", "grpc"), "is not spoken over http://"),
        (("--concurrency", "1", "--rate", "1"), "give one of them"),
    ],
)
def test_what_does_not_fit_the_target_is_refused(
    options: tuple[str, ...], stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeTriton().running() as server:
        code, _, err = bench(capsys, server.url, *options)
    assert code == 2
    assert stated in err
    assert err.count("\n") == 1


def test_a_decoupled_model_wants_streaming(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeTriton(config=config(model_transaction_policy={"decoupled": True})).running() as server:
        code, _, err = bench(capsys, server.url, "--concurrency", "1")
    assert (code, "sends its responses one by one (decoupled); add --streaming" in err) == (2, True)


def test_words_are_no_tokens_but_a_tokenizers_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vocabulary = {"a": 0, "b": 1, "[UNK]": 2}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "Whitespace"}})
    )
    options = ("--protocol", "generate", "--concurrency", "1", "--blocks", "1", "--output", "json")
    with FakeTriton().running() as server:
        code, out, err = bench(capsys, server.url, "--tokenizer", str(tmp_path / "tokenizer.json"), *options)
    assert code == 0, err
    assert json.loads(out)["targets"][0]["points"][0]["blocks"][0]["tokens"] == 2


def test_showing_a_report_needs_no_client() -> None:
    folder = Path(diagnostics.__file__).parent
    shown = [*folder.glob("bench/*.py"), *folder.glob("render/bench_[!p]*.py"), folder / "cli" / "bench.py"]
    names = {
        "diagnostics.loadgen" if "loadgen" in name else name.partition(".")[0]
        for path in shown
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name]
    }
    assert not names & {"diagnostics.loadgen", "tritonclient", "aiohttp", "numpy", "tokenizers", "matplotlib"}
