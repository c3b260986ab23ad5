"""What is done to text of others takes twice as long for twice as much, whatever it repeats."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from diagnostics.wire.secret_shapes import scrub

LENGTH, DOUBLINGS = 10_000, 3
ENOUGH = 0.1
"""Seconds below which a time says nothing of its growth; at quadratic growth the longest text takes ten seconds."""
REPEATED = (
    *(
        "a.",
        "aB",
        "A",
        "a+",
        "a-",
        "a=",
        "=",
        "A-Z",
        "://",
        "a://",
        "a:b@",
        "--a ",
        "-a-a ",
        "_",
        '\\"',
        "'",
        " ",
        "\n",
    ),
    *("eyJ", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "eyJaaaaaaaa.a-", "sk-", "ghp_", "AKIA", "bearer ", "basic a ", "token "),
    *("-----BEGIN ", "-----BEGIN A PRIVATE KEY-----", "PRIVATE KEY", "cookie:  ", "authorization:", "password='"),
    *('password="', 'key "', 'key "a" value "', "input_map", "input_map { key: ", 'password=\\"'),
)


def seconds(work: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    work(text)
    return time.process_time() - begun


@pytest.mark.parametrize("unit", REPEATED)
def test_the_search_for_secrets_grows_with_the_text(unit: str):
    length, took, before = LENGTH, 0.0, 0.0
    for _ in range(DOUBLINGS + 1):
        before, took = took, seconds(scrub, unit * (length // len(unit)))
        length *= 2
    assert took < ENOUGH or took < 3 * before
