"""`diag mcp`: what `diag` knows, for agents that speak the Model Context Protocol."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING, cast

import click

from diagnostics.cli.running_service import url_option
from diagnostics.errors import EXIT_OK, UsageError, not_installed

if TYPE_CHECKING:
    from typing_extensions import Buffer

_EPILOG = """\b
Examples:
  diag mcp                              every source that you may read
  diag mcp http://triton:8000           this server, and a running diag serve
  diag mcp --url https://diag.example.org

\b
It speaks on standard input and output, as agents start it. Tools: explain,
why_not, diff, whatif, tune, verify, lint, slo, incidents, runbook. They only
read. Credentials come from the environment, as for every verb.
Exit: 0 the agent ended it, 2 usage.
"""
LONGEST_LINE = 64 * 2**10
"""Bytes of one call, as over HTTP (`LARGEST_CALL`): the protocol's library makes thirty times as many of them."""
_LINE = re.compile(rb"[^\n]*+\n?")


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@url_option
def command(sources: tuple[str, ...], url: str | None) -> int:
    """Offer the verbs that read as tools to an agent (MCP).

    With SOURCE, tools read nothing else.
    """
    try:
        from diagnostics.cli.mcp_tools import ReadingTools
        from diagnostics.render.agents import agent_server
    except ModuleNotFoundError as error:
        raise not_installed(error, "mcp", where="diag mcp") from None
    if sys.stdin is None:
        raise UsageError("is closed", where="standard input", hint="an agent starts diag mcp with a pipe")
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(BoundedLines(cast("io.BufferedIOBase", sys.stdin.buffer))), "utf-8", "replace"
    )
    agent_server(ReadingTools(sources, url).all()).run("stdio")
    return EXIT_OK


class BoundedLines(io.RawIOBase):
    """A stream whose lines are cut after `LONGEST_LINE` bytes. A call that was cut is no JSON, and is not answered."""

    def __init__(self, source: io.BufferedIOBase) -> None:
        super().__init__()
        self._source, self._length = source, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Buffer, /) -> int:
        view = memoryview(room)
        while data := self._source.read1(len(view)):
            kept = b"".join(map(self._cut, _LINE.findall(data)))
            if kept:
                view[: len(kept)] = kept
                return len(kept)
        return 0

    def _cut(self, part: bytes) -> bytes:
        line = part.removesuffix(b"\n")
        kept = line[: max(LONGEST_LINE - self._length, 0)]
        self._length += len(line)
        if line == part:
            return kept
        if self._length > LONGEST_LINE:
            click.echo(f"diag mcp: a call of more than {LONGEST_LINE // 1024} KiB was not read", err=True)
        self._length = 0
        return kept + b"\n"
