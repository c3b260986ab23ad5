"""Over gRPC a byte that is no UTF-8 costs the entry that it stands in, as over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from tritonclient.grpc import service_pb2

from diagnostics.wire.json_body import decode_object
from diagnostics.wire.records import BodyKind
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.triton_grpc import GrpcApi

GOOD = service_pb2.ModelStatistics(name="good", version="1", inference_count=7)


@contextmanager
def answering(bodies: dict[str, bytes]) -> Iterator[GrpcApi]:
    """Run a server that answers each method with these bytes."""
    methods = {
        method: grpc.unary_unary_rpc_method_handler(lambda _, __, body=body: body) for method, body in bodies.items()
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        api = GrpcApi(parse_address(f"grpc://127.0.0.1:{port}"), SourceOptions())
        yield api
        api.close()
    finally:
        server.stop(0)


@pytest.mark.parametrize("bad", [{"name": "@@@@", "version": "1"}, {"name": "bad", "version": "@@@@"}])
def test_statistics_keep_every_other_model(bad: dict[str, str]) -> None:
    made = service_pb2.ModelStatisticsResponse(model_stats=[service_pb2.ModelStatistics(**bad), GOOD])
    with answering({"ModelStatistics": made.SerializeToString().replace(b"@@@@", b"a\xff\xfeb")}) as api:
        found = decode_object(api.read(BodyKind.STATISTICS), "statistics").raw("model_stats")
    assert isinstance(found, list)
    assert found[1] == {"name": "good", "version": "1", "inference_count": "7"}
    assert "\N{REPLACEMENT CHARACTER}" in found[0].pop("name")
    assert not found[0]


def test_an_index_keeps_every_other_model() -> None:
    entry = service_pb2.RepositoryIndexResponse.ModelIndex
    made = service_pb2.RepositoryIndexResponse(models=[entry(name="good", state="READY"), entry(name="@@@@")])
    with answering({"RepositoryIndex": made.SerializeToString().replace(b"@@@@", b"a\xff\xfeb")}) as api:
        assert b'{"name":"good","state":"READY"}' in api.read(BodyKind.INDEX)
