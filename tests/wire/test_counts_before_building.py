"""A body is counted before anything is made of it: a million small parts would take a hundred times its bytes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.json_body import decode


def page(body: bytes) -> object:
    return ExpositionReader().read(body)


def answer(body: bytes) -> object:
    return decode(body, "the statistics")


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (page, b"a{} 1\n" * 1_000_000),
        (page, b"a{" + b",".join(b'l%d="v"' % i for i in range(100_000)) + b"} 1\n"),
        (answer, b'{"model_stats": [' + b"{}," * 3_000_000 + b"{}]}"),
        (answer, b'{"parameters": {' + b'"a":1,' * 3_000_000 + b'"b":1}}'),
    ],
    ids=["series", "labels", "models", "parameters"],
)
def test_a_body_of_too_many_parts_is_refused_before_they_are_made(read: Callable[[bytes], object], body: bytes):
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(MalformedBody, match="more than"):
        read(body)
    took, (_, peak) = time.process_time() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 2
    assert peak < len(body) + 2**24


@pytest.mark.parametrize(
    ("read", "body"),
    [(page, b"".join(b"a%d 1\n" % i for i in range(20_000))), (answer, b"[" + b"{}," * 100_000 + b"{}]")],
)
def test_a_large_one_is_read(read: Callable[[bytes], object], body: bytes):
    assert read(body)
