"""What agents get: a server of the Model Context Protocol with tools that only read, and answers of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from diagnostics import __version__

# Characters of one answer: a long report in full, and a share of what a language model reads at once.
LONGEST = 40_000
_INSTRUCTIONS = """\
Diagnose NVIDIA Triton and TensorRT-LLM endpoints. Begin with `explain`. It names the cause, the evidence for and
against it, and a change of config.pbtxt with its predicted effect. Where the verdict is that data are insufficient, the
cause is not known: take the measurement that stands behind "next". Never present a lower-ranked cause as certain.
Check a change with `whatif` before it is made, and with `verify` afterwards. No tool changes a server."""

# Parameters that tools share, as clients show them.
Check = Annotated[str, Field(description="The id of a check, as in single-instance-serialization.")]


def agent_server(tools: Iterable[Callable[..., Any]]) -> MCPServer:
    """Return a server that offers the tools; each is named as its function and described by its docstring."""
    made: MCPServer = MCPServer(
        "triton-diagnostics", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    # What is read is not changed; a server that is read lies outside of the conversation.
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=True)
    for tool in tools:
        made.add_tool(tool, annotations=reads, structured_output=False)
    return made


def bounded(text: str) -> str:
    """Return as much of an answer as an agent reads at once, and say what is missing."""
    if len(text) <= LONGEST:
        return text
    kept = text[:LONGEST].rpartition("\n")[0] or text[:LONGEST]
    left = len(text) - len(kept)
    return f"{kept}\n… {left:,} characters more were left out: ask for one deployment, model or check\n"
