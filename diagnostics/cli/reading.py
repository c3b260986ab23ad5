"""Live servers as several verbs read them: found first, then read with what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from diagnostics.cli.sources import aloud
from diagnostics.errors import EXIT_COLLECT, CollectError
from exporters.sources.access import SourceOptions
from exporters.sources.machine import Machine
from exporters.sources.schedule import Source
from exporters.sources.triton import TritonServer, discover_all


def found(sources: Sequence[str], options: SourceOptions) -> tuple[list[TritonServer], list[CollectError]]:
    """Return the servers that were found, and why others were not, which is told on standard error.

    Raises:
        Exit: with code 3, none was found.

    """
    servers, unfound = discover_all(sources, options)
    for failure in unfound:
        aloud(str(failure))
    if not servers:
        raise click.exceptions.Exit(EXIT_COLLECT)
    return servers, unfound


@contextmanager
def opened(servers: Sequence[TritonServer], beside: Sequence[Source]) -> Iterator[list[Source]]:
    """Yield what is read each round: the servers, their machine where they run on it, and what stands beside them.

    Servers and machine are closed afterwards.
    """
    with ExitStack() as stack:
        machine = Machine(servers)
        stack.callback(machine.close)
        for server in servers:
            stack.callback(server.close)
        yield [*servers, *([machine] if machine.local else []), *beside]
