from __future__ import annotations

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire.server import IndexEntry, ServerMetadata, parse_index, parse_server

ENTRIES = (
    IndexEntry(name="chat", version="1", state="READY"),
    IndexEntry(name="llm", version="", state="UNAVAILABLE", reason="out of memory"),
)


def test_the_server_says_its_name_version_and_extensions():
    body = b'{"name": "triton", "version": "2.51.0", "extensions": ["statistics", "trace"]}'

    assert parse_server(body) == ServerMetadata(name="triton", version="2.51.0", extensions=("statistics", "trace"))


@pytest.mark.parametrize(
    "body",
    [
        b'[{"name":"chat","version":"1","state":"READY"},'
        b'{"name":"llm","state":"UNAVAILABLE","reason":"out of memory"}]',
        b'{"models":[{"name":"chat","version":"1","state":"READY"},'
        b'{"name":"llm","version":"","state":"UNAVAILABLE","reason":"out of memory"}]}',
    ],
    ids=["HTTP", "gRPC"],
)
def test_the_index_reads_alike_over_both_protocols(body):
    assert parse_index(body) == ENTRIES


def test_an_empty_repository_has_an_empty_index():
    assert parse_index(b"[]") == parse_index(b"{}") == ()


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"name": "x"}', b"404 page not found"])
def test_another_service_is_no_triton(body):
    with pytest.raises(MalformedBody):
        parse_server(body)
