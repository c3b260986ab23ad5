"""The verbs that only read, as tools of the Model Context Protocol: each call runs `diag` in a process of its own.

So a call that hangs, or takes memory, is ended without harm to the next one, and answers are those that people get.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import anyio
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from diagnostics.errors import EXIT_FINDINGS, EXIT_OK
from diagnostics.render.agents import Check, bounded
from diagnostics.render.plain import clean

# Seconds of one call: a live server is read for up to 60, and tuning simulates for as long again.
PATIENCE = 240.0
# Each is a process of up to some hundred MB; an agent that asks for more than may wait gets an error.
AT_ONCE, MOST_WAITING = 4, 32
Source = Annotated[
    str,
    Field(
        description="A port of a server (http://triton:8000), a capture (slow.tar.xz), saved pages, or a Prometheus "
        "(prometheus+http://prometheus:9090). Empty: the running diag serve."
    ),
]
At = Annotated[str, Field(description="In a recorded past: the moment to look at, as 2026-01-31T03:12 or 03:12 (UTC).")]
Since = Annotated[str, Field(description="In a recorded past: how long before that moment to look, as 20m.")]
Deployment = Annotated[
    str, Field(description="Which deployment of the running diag serve; needed where it has several.")
]
Entry = Annotated[str, Field(description="The ensemble or model; the busiest where empty.")]
Objective = Annotated[str, Field(description="What latency must be, as in 'p95 < 200ms'.")]
Rate = Annotated[str, Field(description="How much arrives: a multiple of now (2x), or requests per second (40/s).")]
Tokens = Annotated[str, Field(description="Tokens of an LLM engine's requests: a multiple of now (2x), or a mean.")]
Before = Annotated[str, Field(description="A source from before the change.")]
After = Annotated[str, Field(description="A source from after the change; a server is read now.")]
Settings = Annotated[
    list[str],
    Field(description="Changes as MODEL.SETTING=VALUE, for example safety.instance_group.count=3.", max_length=50),
]
Paths = Annotated[list[str], Field(description="Model repositories or files.", min_length=1, max_length=50)]


_Value = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class ReadingTools:
    """The tools.

    Attributes:
        sources: what may be named as a source or a path; empty allows everything that the user of the process may read.
        url: the running service, for calls without a source; None takes the default of the command.

    """

    sources: tuple[str, ...] = ()
    url: str | None = None
    _running: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))

    def all(self) -> Sequence[Callable[..., Awaitable[str]]]:
        """Return the tools."""
        on_sources = (self.explain, self.why_not, self.diff, self.whatif, self.tune, self.verify, self.lint, self.slo)
        return (*on_sources, self.incidents, self.runbook)

    async def explain(
        self,
        source: Source = "",
        objective: Objective = "",
        deployment: Deployment = "",
        at: At = "",
        since: Since = "",
    ) -> str:
        """Find why an endpoint is slow, and which line to change. A live server is read for up to a minute."""
        given = {"objective": objective, "deployment": deployment, "at": at, "since": since, "output": "markdown"}
        return await self._run("explain", [source], given)

    async def why_not(
        self, check: Check, source: Source = "", deployment: Deployment = "", at: At = "", since: Since = ""
    ) -> str:
        """Show what one check saw, and what would have changed its mind."""
        given = {"why-not": check, "deployment": deployment, "at": at, "since": since}
        return await self._run("explain", [source], given)

    async def diff(self, before: Before, after: After) -> str:
        """Compare two windows: what changed, and which change explains it."""
        return await self._run("diff", [before, after], {"output": "markdown"})

    async def whatif(
        self,
        source: Source,
        settings: Settings = [],  # noqa: B006 - read only, and shown to clients as []
        rate: Rate = "",
        entry: Entry = "",
        prompt_tokens: Tokens = "",
        output_tokens: Tokens = "",
    ) -> str:
        """Predict what a change of settings or load would do, on a simulation of what was measured."""
        lengths = {"prompt-tokens": prompt_tokens, "output-tokens": output_tokens}
        given = {"set": settings, "rate": rate, "entry": entry, **lengths, "output": "markdown"}
        return await self._run("whatif", [source], given)

    async def tune(self, source: Source, objective: Objective, rate: Rate = "", entry: Entry = "") -> str:
        """Find the smallest change of settings that meets an objective of latency."""
        given = {"objective": objective, "rate": rate, "entry": entry, "output": "markdown"}
        return await self._run("tune", [source], given)

    async def verify(self, before: Before, after: After, entry: Entry = "") -> str:
        """Check whether a change did what was predicted."""
        return await self._run("verify", [before, after], {"entry": entry, "output": "markdown"})

    async def lint(self, paths: Paths) -> str:
        """Say what is wrong with model repositories by their files."""
        return await self._run("lint", paths, {})

    async def slo(self, source: Source = "", deployment: Deployment = "") -> str:
        """Say how objectives stand, and which causes took their budgets."""
        return await self._run("slo report", [source], {"deployment": deployment, "output": "markdown"})

    async def incidents(self) -> str:
        """Return what the running diag serve says now, as JSON: servers, deployments, findings, open incidents."""
        return await self._run("watch --once", [], {"output": "json"})

    async def runbook(self, check: Check = "") -> str:
        """Return the runbook of a check: what it means, what to do, its limits. Without a check: the list of all."""
        return await self._ran("checks", [check], {})

    async def _run(self, verb: str, places: Sequence[str], options: Mapping[str, _Value]) -> str:
        named = [place for place in places if place]
        strange = [name for name in named if self.sources and name not in self.sources]
        if strange:
            raise ToolError(f"{strange[0]!r} is not among what this server may read: {', '.join(self.sources)}")
        return await self._ran(verb, named, options if named or self.url is None else {**options, "url": self.url})

    async def _ran(self, verb: str, places: Sequence[str], options: Mapping[str, _Value]) -> str:
        if self._running.statistics().tasks_waiting >= MOST_WAITING:
            raise ToolError(f"{AT_ONCE} calls run and {MOST_WAITING} wait: ask again when one of them is answered")
        async with self._running:
            return await _ran(verb, places, options)


async def _ran(verb: str, places: Sequence[str], options: Mapping[str, _Value]) -> str:
    """Return what a verb prints.

    Raises:
        ToolError: it failed, with its one line; or it was not ready in time; or an argument is none.

    """
    # With `=` and after `--`, nothing that an agent writes is taken for an option.
    flags = [f"--{name}={one}" for name, value in options.items() for one in _each(value)]
    command = [sys.executable, "-m", "triton_diagnostics", *verb.split(), *flags, "--", *filter(None, places)]
    try:
        with anyio.move_on_after(PATIENCE) as waited:
            done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False)
    except ValueError:  # what the system takes for the end of an argument, or cannot encode
        raise ToolError(f"diag {verb}: an argument holds a null character or half of one: leave it out") from None
    if waited.cancelled_caught:
        raise ToolError(f"diag {verb} was not ready within {PATIENCE:.0f} s: ask for a shorter time")
    if done.returncode not in (EXIT_OK, EXIT_FINDINGS):
        raise ToolError(bounded(clean(done.stderr.decode(errors="replace").strip())))
    return bounded(done.stdout.decode(errors="replace"))


def _each(value: _Value) -> Sequence[str]:
    return [one for one in ([value] if isinstance(value, str) else value) if one]
