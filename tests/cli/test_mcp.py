"""`diag mcp` as an agent starts it: the official client, over standard input and output."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver.exceptions import ToolError

from diagnostics.cli import mcp_tools
from diagnostics.cli.mcp import LONGEST_LINE, BoundedLines
from diagnostics.cli.mcp_tools import AT_ONCE, MOST_WAITING, ReadingTools
from diagnostics.render.agents import LONGEST, bounded
from diagnostics.service.http.guard import LARGEST_CALL

ROOT = Path(__file__).parents[2]
CAPTURE = str(ROOT / "fixtures/captures/cpu-handed-single-instance.tar.xz")
NOBODY = "http://127.0.0.1:1"
Conversation = Callable[[Client], Awaitable[Any]]


def talk(conversation: Conversation, *arguments: str) -> Any:
    command = ["-m", "triton_diagnostics", "mcp", *arguments]
    starting = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)

    async def talking() -> Any:
        async with Client(stdio_client(starting)) as client:
            return await conversation(client)

    return asyncio.run(asyncio.wait_for(talking(), 120))


async def called(client: Client, name: str, **given: Any) -> tuple[bool, str]:
    """Return whether a tool failed, and its text."""
    result = await client.call_tool(name, given)
    return bool(result.is_error), "\n".join(getattr(part, "text", "") for part in result.content)


@pytest.fixture(scope="module")
def session() -> Mapping[str, Any]:
    """Return the tools of a server that may read everything, and what calls of them return."""

    async def conversation(client: Client) -> dict[str, Any]:
        return {
            "tools": list((await client.list_tools()).tools),
            "explain": await called(client, "explain", source=CAPTURE),
            "whatif": await called(client, "whatif", source=CAPTURE, settings=["safety.instance_group.count=2"]),
            "why_not": await called(client, "why_not", check="cold-start", source=CAPTURE),
            "no file": await called(client, "explain", source="/nowhere.tar.xz"),
            "an option": await called(client, "explain", source="--output=html"),
        }

    answers: Mapping[str, Any] = talk(conversation)
    return answers


def test_every_tool_says_what_it_does_and_takes_and_only_reads(session: Mapping[str, Any]) -> None:
    tools = {tool.name: tool for tool in session["tools"]}

    assert set(tools) == {
        *("explain", "why_not", "diff", "whatif", "tune", "verify"),
        *("lint", "slo", "incidents", "runbook"),
    }
    for tool in tools.values():
        assert tool.description
        assert tool.annotations.read_only_hint
        assert all("description" in one for one in tool.input_schema["properties"].values())


def test_a_capture_is_explained_and_a_change_of_it_predicted(session: Mapping[str, Any]) -> None:
    calls = [session[name] for name in ("explain", "whatif", "why_not")]
    explained, predicted, why = (text for _, text in calls)

    assert not any(failed for failed, _ in calls)
    assert "single-instance-serialization" in explained.splitlines()[0]
    assert "```diff" in explained
    assert "safety" in predicted
    assert "cold-start" in why


def test_what_fails_is_an_error_with_the_line_that_people_get(session: Mapping[str, Any]) -> None:
    failed, text = session["no file"]
    assert failed
    assert "/nowhere.tar.xz: no such file" in text


def test_a_source_that_looks_like_an_option_is_none(session: Mapping[str, Any]) -> None:
    failed, text = session["an option"]
    assert failed
    assert "--output=html" in text


@pytest.mark.parametrize("source", ["a\0b", "a\udc00b"], ids=["null", "half a character"])
def test_what_no_process_takes_as_an_argument_is_refused_in_a_line(source: str) -> None:
    with pytest.raises(ToolError, match="holds a null character or half of one: leave it out"):
        asyncio.run(ReadingTools().explain(source=source))


def test_with_sources_nothing_else_is_read() -> None:
    async def conversation(client: Client) -> list[tuple[bool, str]]:
        return [
            await called(client, "explain", source=CAPTURE),
            await called(client, "explain", source=NOBODY),
            await called(client, "lint", paths=[str(ROOT)]),
        ]

    named, *others = talk(conversation, CAPTURE)
    assert not named[0]
    for failed, text in others:
        assert failed
        assert "is not among what this server may read" in text


def test_without_a_source_the_service_is_asked() -> None:
    failed, text = talk(lambda client: called(client, "incidents"), "--url", NOBODY)
    assert failed
    assert "127.0.0.1:1: no service answers" in text


@pytest.mark.parametrize("size", [1, LONGEST, LONGEST + 1, 10 * LONGEST])
def test_an_answer_is_bounded_and_says_what_is_missing(size: int) -> None:
    text = "\n".join("x" * 99 for _ in range(size // 100 + 1))[:size]
    short = bounded(text)
    assert len(short) <= LONGEST + 200
    assert (short == text) is (size <= LONGEST)
    assert ("left out" in short) is (size > LONGEST)


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_a_line_without_end_is_cut_and_the_next_one_is_read(chunk: int, capsys: pytest.CaptureFixture[str]) -> None:
    whole = b'{"id":1}' + b" " * (LONGEST_LINE - 8)
    source = b"\n".join([whole, whole + b" ", b"{}," * 30_000, b"", b'{"id":2}', b"a" * 70_000])

    class Slowly(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(min(size or 0, chunk))

    read = io.BufferedReader(BoundedLines(Slowly(source)), 100_000).read()
    assert read.split(b"\n") == [line[:LONGEST_LINE] for line in source.split(b"\n")]
    assert capsys.readouterr().err.count("more than 64 KiB") == 2


def test_calls_over_standard_input_are_as_long_as_over_http() -> None:
    assert LONGEST_LINE == LARGEST_CALL


def test_an_agent_that_asks_for_everything_at_once_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def slow(*_: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return "done"

    monkeypatch.setattr(mcp_tools, "_ran", slow)

    async def flood() -> list[str | BaseException]:
        tools = ReadingTools()
        return await asyncio.gather(*(tools.lint(["a"]) for _ in range(100)), return_exceptions=True)

    answers = asyncio.run(flood())
    assert most == AT_ONCE
    assert answers.count("done") == AT_ONCE + MOST_WAITING
    assert "ask again" in str(answers[-1])
