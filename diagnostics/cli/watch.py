"""`diag watch`: what is wrong now, for as long as one looks."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Generator
from typing import NamedTuple

import click

from diagnostics.cli.options import DURATION, coloured, is_given, places_given, source_options
from diagnostics.cli.running_service import url_option
from diagnostics.errors import UsageError
from diagnostics.render.fleet import fleet_frame, fleet_gist
from diagnostics.render.live import Json, Style, frame, gist
from exporters.sources.access import SourceOptions

_EPILOG = """\b
Examples:
  diag watch                                what the running service sees
  diag watch http://triton:8000             without a service
  diag watch --once --output json | jq .deployments
  diag watch --fleet                        the deployments of all workers

\b
Without SOURCE, a running diag serve is asked. A terminal is redrawn; a pipe or
a file gets a block, or a line of JSON, each time something changed.
Ctrl-C ends it. Exit: 0 ended, 2 usage, 3 could not collect.
"""
_CLEAR, _HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\033[2J", "\033[H", "\033[K", "\033[J"
_PIPE_WIDTH = 120


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--interval", type=DURATION, default="5s", show_default=True, help="Between two verdicts on a SOURCE.")
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option("--fleet", is_flag=True, help="Show the deployments of all workers of the service, a line each.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@url_option
@source_options
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    interval: float,
    once: bool,
    fleet: bool,
    output: str,
    url: str | None,
    options: SourceOptions,
) -> None:
    """Show what is wrong now, and keep showing it."""
    from diagnostics.cli.watching import states_of_fleet, states_of_service, states_of_sources

    if sources and fleet:
        raise UsageError("not together with a SOURCE", where="--fleet", hint="the running service knows its fleet")
    if sources and url is not None:
        raise UsageError("not together with a SOURCE", where="--url", hint="leave out one or the other")
    if not sources:
        _refuse_reading(ctx, options)
    if fleet:
        states, view = states_of_fleet(url, options, once=once), View(fleet_frame, fleet_gist)
    elif sources:
        states, view = states_of_sources(sources, interval, options), View(frame, gist)
    else:
        states, view = states_of_service(url, options, once=once), View(frame, gist)
    # Whoever watches ends by Ctrl-C: that is no failure.
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(states):
        _show(states, view, once=once, output=output, colour=ctx.color is not False)


def _refuse_reading(ctx: click.Context, options: SourceOptions) -> None:
    """Refuse what says how servers are read: a running service reads them as its own settings say."""
    refused = places_given(options)
    if is_given(ctx, "interval"):
        refused.insert(0, "--interval")
    if refused:
        raise UsageError("not for a running service", where=", ".join(refused), hint="leave it out, or name a SOURCE")


class View(NamedTuple):
    """How a state is shown: its lines, and what must change for it to be shown again."""

    frame: Callable[[Json, int, Style | None], list[str]]
    gist: Callable[[Json], object]


def _show(states: Generator[Json, None, None], view: View, *, once: bool, output: str, colour: bool) -> None:
    redraw = output == "text" and sys.stdout.isatty() and not once
    last: object = None
    if redraw:
        click.echo(_CLEAR, nl=False)
    for state in states:
        now = view.gist(state)
        if redraw:
            _redraw(state, view, colour=colour)
        elif now != last:
            made = json.dumps(state, allow_nan=False) if output == "json" else _block(state, view, colour=colour)
            click.echo(made)
            sys.stdout.flush()
        last = now
        if once:
            return


def _redraw(state: Json, view: View, *, colour: bool) -> None:
    columns, height = shutil.get_terminal_size()
    lines = view.frame(state, columns, coloured if colour else None)
    if len(lines) > height - 1:
        lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines"]
    click.echo(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_SCREEN, nl=False, color=True)


def _block(state: Json, view: View, *, colour: bool) -> str:
    return "\n".join(view.frame(state, _PIPE_WIDTH, coloured if colour else None)) + "\n"
