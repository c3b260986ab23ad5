"""A service stays alive and small whatever comes in at its ports."""

from __future__ import annotations

import json
import time

import pytest
import urllib3

from tests.attack.measuring import Attacked

pytestmark = pytest.mark.live


def spans(name: str) -> bytes:
    now = time.time_ns()
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10)}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "name": name}]}]}]}).encode()


@pytest.mark.attack
@pytest.mark.parametrize("name", ["a" * 60_000, "a" * 1_000_000])
def test_a_long_name_of_a_span(service: Attacked, name: str):
    with service.holding(), urllib3.PoolManager(retries=False, timeout=30) as pool:
        for _ in range(3):
            pool.request(
                "POST", f"{service.url}/v1/traces", body=spans(name), headers={"Content-Type": "application/json"}
            )
        time.sleep(3)
