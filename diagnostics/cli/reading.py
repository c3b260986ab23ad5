"""Live servers as several verbs read them: found first, then read with what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from diagnostics.cli.sources import WindowOptions, until_sure, warn
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.errors import EXIT_COLLECT, CollectError
from exporters.sources.access import SourceOptions
from exporters.sources.dcgm import dcgm_page
from exporters.sources.machine import Machine
from exporters.sources.schedule import PATIENCE, Source, collect
from exporters.sources.triton import TritonServer, discover_all

LONGEST_SECONDS = 60.0
INTERVAL_SECONDS = 1.0


def found(sources: Sequence[str], options: SourceOptions) -> tuple[list[TritonServer], list[CollectError]]:
    """Return the servers that were found, and why others were not, which is told on standard error.

    Raises:
        Exit: with code 3, none was found.

    """
    servers, unfound = discover_all(sources, options)
    for failure in unfound:
        warn(str(failure))
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


def explain_servers(
    sources: Sequence[str], question: WindowOptions, window: float | None, options: SourceOptions
) -> tuple[Explanation, bool]:
    """Return the explanation of servers as they are now, and whether some source could not be reached.

    They are read for exactly `window` seconds; None reads for as long as it takes to be sure.
    """
    servers, unfound = found(sources, options)
    names = [server.name for server in servers]
    known = [spot for server in servers for spot in server.blind_spots]
    seconds = window or LONGEST_SECONDS
    with opened(servers, dcgm_page(options)) as read_from:
        scrapes = collect(
            read_from,
            min(INTERVAL_SECONDS, seconds / 4),
            seconds=seconds,
            left=lambda name: known.append(_left(name)),
        )
        explanation = until_sure(scrapes, question, names, known, warn, fixed=window is not None)
    return explanation, bool(unfound)


def _left(name: str) -> BlindSpot:
    return BlindSpot(
        what=f"the last round of {name}",
        why=f"it was not complete {PATIENCE:g} s after it began",
        fix="read again; where it stays so, shorten --timeout, and look at what slows this source down",
    )
