"""The service's tools for agents, asked by the official client over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from mcp import Client

from tests.service.http.door import HASHED, USER, Door, basic, door, judged, show
from tests.store.lived import NAME

MCP = {"web.mcp": "true"}


@pytest.fixture(scope="module")
def opened() -> Iterator[Door]:
    with door(MCP) as made:
        show(made.service, judged())
        yield made


def call(url: str, name: str, **given: Any) -> tuple[bool, str]:
    async def talking() -> tuple[bool, str]:
        async with Client(f"{url}/mcp") as client:
            result = await client.call_tool(name, given)
            return bool(result.is_error), "\n".join(getattr(part, "text", "") for part in result.content)

    return asyncio.run(asyncio.wait_for(talking(), 60))


def test_the_state_and_an_explanation_are_those_of_the_api(opened: Door) -> None:
    failed, text = call(opened.url, "state")
    assert not failed
    answers = (json.loads(text), opened.json("/api/v1/state"))
    # The age of a verdict grows from one answer to the next.
    agents, api = ([{**one, "age": 0} for one in answer["deployments"]] for answer in answers)
    assert agents == api

    failed, text = call(opened.url, "explain", deployment=NAME)
    assert not failed
    assert text == opened.ask(f"/api/v1/deployments/{NAME}/explanation?output=markdown").data.decode()


def test_a_runbook_is_that_of_the_check(opened: Door) -> None:
    failed, text = call(opened.url, "runbook", check="cold-start")
    assert not failed
    assert "## Means" in text
    failed, text = call(opened.url, "runbook", check="no-such-check")
    assert failed
    assert "there is no check 'no-such-check'" in text


def test_a_forecast_is_that_of_the_api(opened: Door) -> None:
    failed, text = call(opened.url, "whatif", deployment=NAME, settings=["slow.instance_group.count=2"], rate="1.2x")
    asked = f"deployment={NAME}&set=slow.instance_group.count%3D2&rate=1.2x&output=markdown"
    answer = opened.ask(f"/api/v1/whatif?{asked}")
    assert failed is (answer.status != 200)
    assert text.endswith(answer.data.decode() if not failed else answer.json()["detail"])
    failed, text = call(opened.url, "whatif", deployment=NAME, settings=["slo.instance_group.count=2"])
    assert failed
    assert "there is no model 'slo'; did you mean slow?" in text


def test_what_the_api_refuses_is_an_error(opened: Door) -> None:
    failed, text = call(opened.url, "explain", deployment="nobody")
    assert failed
    assert text.endswith("there is no deployment 'nobody'")
    assert call(opened.url, "explain", deployment="../../state")[0]


def test_strangers_are_not_let_in(tmp_path: Path) -> None:
    users = tmp_path / "web.yml"
    users.write_text(f"basic_auth_users: {{{USER}: {HASHED}}}\n")
    with door({**MCP, "web.config_file": str(users)}) as made:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
        headers = {"content_type": "application/json", "accept": "application/json, text/event-stream"}
        assert made.ask("/mcp", "POST", body=body, **headers).status == 401
        assert made.ask("/mcp", "POST", body=body, **headers, authorization=basic()).status == 200
        assert (
            made.ask("/mcp", "POST", body=body, **headers, authorization=basic(), origin="http://evil.example").status
            == 403
        )


def test_it_is_off_unless_asked_for() -> None:
    with door() as made:
        assert made.ask("/mcp", "POST", body=b"{}", content_type="application/json").status in (404, 405)


def test_a_call_larger_than_a_tools_is_refused_however_it_is_sent(opened: Door) -> None:
    kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    large = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[' + b"{}," * 30_000 + b"{}]}"
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        whole = pool.request("POST", f"{opened.url}/mcp", body=large, headers=kind)
        assert whole.status == 413
        chunked = pool.request("POST", f"{opened.url}/mcp", body=iter([large[:50_000], large[50_000:]]), headers=kind)
        assert chunked.status == 413


def test_a_client_that_leaves_within_its_call_is_no_fault(opened: Door, caplog: pytest.LogCaptureFixture) -> None:
    begun = (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
        b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{"
    )
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", opened.server.port), 5) as one:
            one.sendall(begun)
            time.sleep(0.05)
    assert not call(opened.url, "state")[0]
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
