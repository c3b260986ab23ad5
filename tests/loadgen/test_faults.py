"""Servers, files and signals that would end a load test, or spoil it, and what it does instead."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from diagnostics.bench.limits import RequestLimits
from diagnostics.cli.interrupting import interruptible
from diagnostics.cli.main import main
from diagnostics.errors import CollectError, DiagError, UsageError
from diagnostics.loadgen import http_answers, inputs, watching
from diagnostics.loadgen.deadline import OutOfTimeError, deadline
from diagnostics.loadgen.inputs import make_requests
from diagnostics.loadgen.plan import Plan
from diagnostics.loadgen.repository import configuration
from diagnostics.loadgen.sweep import Contender, Sweep
from diagnostics.loadgen.target import Wanted, endpoint_of, order_of, transport_of
from diagnostics.loadgen.transport import Endpoint, Reply, Transport
from diagnostics.render.bench_json import bench_json
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover
from tests.loadgen.fake_server import FakeTriton, config
from tests.loadgen.reports import block, report, target

HTTP, GENERATE = Wanted(timeout=0.2), Wanted(timeout=0.2, protocol="generate")
STREAM = replace(GENERATE, streaming=True)
OTHER = b'{"model_name": "other", "outputs": [], "text_output": ""}'


def with_transport(url: str, wanted: Wanted, use: Callable[[Transport], Awaitable[Any]], model: str = "llm") -> Any:
    endpoint = endpoint_of(url, wanted)

    async def run() -> Any:
        transport = transport_of(endpoint, SourceOptions(timeout=0.2))
        order = order_of(model, config(), endpoint, wanted)
        transport.prepare(model, order.requests.values, order.requests.kinds, order.reads)
        try:
            return await use(transport)
        finally:
            await transport.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("wanted", "bodies"),
    [
        (HTTP, [b"", b"\xff\x00{", b"[1]", b"null", OTHER, b'{"outputs": [{"name": "num_output_tokens"}]}']),
        (GENERATE, [b"", b"<html>", b"[1]", b"3", OTHER, b'{"num_output_tokens": {"a": 1}}']),
        (
            STREAM,
            [b"", b"data: [DONE]\n\n", b"data: 3\n\n", b"data: " + OTHER, b"data: " + b"x" * 2**20, b": ping\n\n"],
        ),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_failed_request_and_no_more(wanted: Wanted, bodies: list[bytes]) -> None:
    async def ask(transport: Transport) -> list[Reply]:
        return [await transport.ask(0) for _ in range(len(server.spoilt) + 1)]

    with FakeTriton(spoilt=list(bodies)).running() as server:
        *bad, good = with_transport(server.url, wanted, ask)
    assert [one.ok for one in bad] == [False] * len(bodies)
    assert {one.code for one in bad} == {200}
    assert all(one.error and "\n" not in one.error for one in bad)
    assert any("it is of model 'other'" in one.error for one in bad)
    assert good.ok


def test_an_answer_without_end_is_given_up_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_answers, "MAX_BODY_BYTES", 2**20)
    with FakeTriton(spoilt=[b" " * 2**21]).running() as server:
        reply = with_transport(server.url, HTTP, lambda transport: transport.ask(0))
    assert "it is larger than 1 MiB" in reply.error


def test_a_redirect_is_told_and_not_followed() -> None:
    with FakeTriton().running() as server:
        reply = with_transport(server.url, HTTP, lambda transport: transport.ask(0), model="moved")
    assert (reply.ok, reply.code) == (False, 307)
    assert "redirects to /v2/models/llm/infer, which is not followed" in reply.error
    assert not server.bodies


def test_who_is_not_there_is_told_in_plain_words() -> None:
    reply, alive = with_transport("http://127.0.0.1:9", HTTP, _asked_and_alive)
    assert (reply.code, alive) == (0, False)
    assert reply.error == "connection refused"
    with pytest.raises(CollectError, match=r"127.0.0.1:9: .* connection refused; check the address") as raised:
        configuration(endpoint_of("127.0.0.1:9", HTTP), SourceOptions(), None)
    assert "ssl" not in str(raised.value)


async def _asked_and_alive(transport: Transport) -> tuple[Reply, bool]:
    return await transport.ask(0), await transport.alive()


@pytest.mark.parametrize(("model", "said"), [(None, "no model is ready"), ("llm", "'llm' that is ready")])
def test_a_model_that_is_not_ready_is_told_with_its_state(model: str | None, said: str) -> None:
    with (
        FakeTriton(state="LOADING", config={}).running() as server,
        pytest.raises(DiagError) as raised,
    ):
        configuration(endpoint_of(server.url, HTTP), SourceOptions(), model)
    assert said in str(raised.value)
    assert "llm is LOADING" in str(raised.value)


class Triton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """As much of Triton's gRPC as a load test asks; its third request finds a full queue."""

    asked = 0

    def ServerLive(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ServerLiveResponse(live=True)

    def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = service_pb2.ModelConfigResponse()
        answer.config.name = "llm"
        answer.config.input.add(name="x", data_type="TYPE_FP32", dims=[2])
        return answer

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked += 1
        if self.asked == 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
        return service_pb2.ModelInferResponse(model_name="llm" if self.asked == 1 else "other")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", "req", *kind, *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    return key, cert


@contextmanager
def over_tls(pem: tuple[Path, Path]) -> Iterator[str]:
    key, cert = (file.read_bytes() for file in pem)
    server = grpc.server(ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Triton(), server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
    server.start()
    try:
        yield f"grpcs://127.0.0.1:{port}"
    finally:
        server.stop(None)


def test_load_goes_over_grpc_with_tls_to_who_is_trusted(pem: tuple[Path, Path]) -> None:
    with over_tls(pem) as url:
        endpoint = endpoint_of(url, Wanted())
        trusting = SourceOptions(ca_file=pem[1])
        first, other, full = asyncio.run(_asked_thrice(endpoint, trusting))
        with pytest.raises(CollectError, match="the TLS certificate is not trusted; see --ca-file"):
            configuration(endpoint, SourceOptions(), "llm")
        with pytest.raises(UsageError, match="gRPC always checks certificates; give --ca-file"):
            configuration(endpoint, SourceOptions(insecure=True), "llm")
    assert first.ok, first.error
    assert "it is of model 'other'" in other.error
    # Unavailable is what a channel without a server says, too: this one was the server's word.
    assert (full.code, "Exceeds maximum queue size" in full.error) == (500, True)


async def _asked_thrice(endpoint: Endpoint, options: SourceOptions) -> list[Reply]:
    order = order_of(*configuration(endpoint, options, "llm"), endpoint, Wanted())
    transport = transport_of(endpoint, options)
    transport.prepare("llm", order.requests.values, order.requests.kinds, order.reads)
    try:
        return [await transport.ask(number) for number in range(3)]
    finally:
        await transport.close()


def test_what_grpc_cannot_meet_keeps_nobody_from_http() -> None:
    with pytest.raises(CollectError, match="no Triton found"):
        discover("https://127.0.0.1:9", SourceOptions(insecure=True, timeout=0.2))


def test_large_tensors_are_fewer_and_too_large_ones_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BYTES", 2**20)

    def made(elements: int) -> int:
        asked = {"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [str(elements)]}]}
        return len(make_requests(asked, length=1, max_tokens=1, seed=-1, streaming=False).values)

    assert made(2**16) == 4
    with pytest.raises(UsageError, match="a request has 1,024 MiB"):
        made(2**28)


def test_an_unsigned_end_id_is_not_asked_to_be_none() -> None:
    changed = config()
    next(one for one in changed["input"] if one["name"] == "end_id")["data_type"] = "TYPE_UINT32"
    made = make_requests(changed, length=1, max_tokens=1, seed=1, streaming=False)
    assert made.sampling.asked == ("max_tokens", "min_tokens", "greedy")


def test_work_ends_at_its_deadline_or_at_once_on_ctrl_c() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(OutOfTimeError), deadline(0.02):
        sum(0 for _ in iter(int, 1))
    with pytest.raises(KeyboardInterrupt), deadline(60):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_sigterm_ends_a_measurement_once_and_nothing_interrupts_its_end() -> None:
    with interruptible() as settle:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        settle()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Answering:
    """A transport that answers at once."""

    async def ask(self, _: int) -> Reply:
        await asyncio.sleep(0.001)
        return Reply()


def swept(diagnose: Callable[..., Any]) -> Sweep:
    watcher = SimpleNamespace(watch=lambda *_: None, diagnose=diagnose)
    watcher.watch = lambda *_: SimpleNamespace(cancel=lambda: None)
    shown = target({})
    asked = SimpleNamespace(
        endpoint=SimpleNamespace(name="a:8000", protocol="http"),
        transport=Answering(),
        requests=SimpleNamespace(values=(1,)),
        model="m",
        workload=shown.workload,
        count=lambda _: None,
    )
    plan = Plan(loads=(1.0,), closed=True, seconds=0.02, warm_up=0.0, blocks=2)
    contender = Contender(target=asked, watcher=watcher)  # type: ignore[arg-type]
    return Sweep(plan=plan, contenders=[contender], limits=RequestLimits(), tell=lambda _: None)


def test_who_ends_a_test_during_a_diagnosis_keeps_what_was_measured() -> None:
    def diagnose(*_: Any) -> None:
        raise KeyboardInterrupt

    sweep = swept(diagnose)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(sweep.run())
    (point,) = sweep.report().targets[0].points
    assert len(point.blocks) == 1
    assert (point.blocks[0].requests > 0, sweep.report().ended) == (True, "interrupted")


@pytest.mark.parametrize(
    ("explained", "said"), [(False, "not explained within 20 s"), (True, "not proven within 20 s")]
)
def test_a_cause_that_is_not_proven_in_time_is_none(
    monkeypatch: pytest.MonkeyPatch, *, explained: bool, said: str
) -> None:
    def late(_: Any, __: str, tell: Callable[[Any], None]) -> None:
        if explained:
            tell("found")
        raise OutOfTimeError

    known = watching.Diagnosis(verdict="degraded", cause="x of y", text="x it is")
    monkeypatch.setattr(watching, "diagnosis", lambda _: known)
    watcher = object.__new__(watching.Watcher)
    monkeypatch.setattr(watcher, "_explained", late)
    found = watcher._bounded([], "m")
    assert (found.cause, said in found.text) == ("", True)
    monkeypatch.setattr(watcher, "_explained", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in watcher._bounded([], "m").text


class Full(io.StringIO):
    """A standard output on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_report_that_cannot_be_written_is_shown_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(bench_json(report(target({1.0: [block(9, 0.1)]}))))
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["bench", str(path), "--output", "json"]) == 3
    shown = capsys.readouterr().err
    assert json.loads(shown[: shown.rindex("}") + 1])["targets"][0]["points"]
    assert "no space left on device" in shown
