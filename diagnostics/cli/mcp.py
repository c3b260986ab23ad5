"""`diag mcp`: what `diag` knows, for agents that speak the Model Context Protocol."""

from __future__ import annotations

import click

from diagnostics.cli.running_service import url_option
from diagnostics.errors import EXIT_OK, not_installed

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
    agent_server(ReadingTools(sources, url).all()).run("stdio")
    return EXIT_OK
