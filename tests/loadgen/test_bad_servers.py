"""Servers that would end a load test, or spoil it, and what it does instead."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from diagnostics.errors import CollectError, DiagError, UsageError
from diagnostics.loadgen import http_transports, inputs
from diagnostics.loadgen.inputs import make_requests
from diagnostics.loadgen.repository import configuration
from diagnostics.loadgen.target import TargetOptions, endpoint_of, order_of, transport_of
from diagnostics.loadgen.transport import Endpoint, Reply, Transport
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover
from tests.loadgen.fake_server import FakeTriton, config

HTTP, GENERATE = TargetOptions(timeout=0.2), TargetOptions(timeout=0.2, protocol="generate")
STREAM = replace(GENERATE, streaming=True)
OTHER = b'{"model_name": "other", "outputs": [], "text_output": ""}'


def with_transport(
    url: str, wanted: TargetOptions, use: Callable[[Transport], Awaitable[Any]], model: str = "llm"
) -> Any:
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
def test_an_answer_that_cannot_be_used_is_a_failed_request_and_no_more(
    wanted: TargetOptions, bodies: list[bytes]
) -> None:
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
    monkeypatch.setattr(http_transports, "MAX_BODY_BYTES", 2**20)
    with FakeTriton(spoilt=[b" " * 2**21]).running() as server:
        reply = with_transport(server.url, HTTP, lambda transport: transport.ask(0))
    assert "it is larger than 1 MiB" in reply.error


def test_a_redirect_is_reported_and_not_followed() -> None:
    with FakeTriton().running() as server:
        reply = with_transport(server.url, HTTP, lambda transport: transport.ask(0), model="moved")
    assert (reply.ok, reply.code) == (False, 307)
    assert "redirects to /v2/models/llm/infer, which is not followed" in reply.error
    assert not server.bodies


def test_who_is_not_there_is_reported_in_plain_words() -> None:
    reply, alive = with_transport("http://127.0.0.1:9", HTTP, _asked_and_alive)
    assert (reply.code, alive) == (0, False)
    assert reply.error == "connection refused"
    with pytest.raises(CollectError, match=r"127.0.0.1:9: .* connection refused; check the address") as raised:
        configuration(endpoint_of("127.0.0.1:9", HTTP), SourceOptions(), None)
    assert "ssl" not in str(raised.value)


async def _asked_and_alive(transport: Transport) -> tuple[Reply, bool]:
    return await transport.ask(0), await transport.alive()


@pytest.mark.parametrize(("model", "stated"), [(None, "no model is ready"), ("llm", "'llm' that is ready")])
def test_a_model_that_is_not_ready_is_reported_with_its_state(model: str | None, stated: str) -> None:
    with (
        FakeTriton(state="LOADING", config={}).running() as server,
        pytest.raises(DiagError) as raised,
    ):
        configuration(endpoint_of(server.url, HTTP), SourceOptions(), model)
    assert stated in str(raised.value)
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
        endpoint = endpoint_of(url, TargetOptions())
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
    order = order_of(*configuration(endpoint, options, "llm"), endpoint, TargetOptions())
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
