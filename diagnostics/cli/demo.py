"""`diag demo`: a real Triton with a known fault, explained and mended."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from diagnostics.cli.options import DURATION, coloured, is_given, nearest
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, UsageError, not_installed

if TYPE_CHECKING:
    from diagnostics.demo.faults import DemoFault
    from diagnostics.loadgen.load import LoadProgress

# Of each load, in seconds: a shorter one holds too few scrapes to find a cause.
SHORTEST_LOAD = 12.0
_EPILOG = """\b
Examples:
  diag demo
  diag demo --fault batch-window-long
  diag demo --keep    a slow Triton to try explain, record, watch and serve on
  diag demo --list

\b
The server is NVIDIA's own, from PyPI (60 MB at first use), without a GPU: its
stages sleep where a GPU would compute. It listens on loopback only, and nothing
of it is left behind. $DIAG_TRITON_ENV names an environment that has it already.
Exit: 0 the fault's own cause was named, or --keep ended, 1 it was not, 2 usage,
3 no server.
"""


@click.command(epilog=_EPILOG, short_help="Show a real, slow Triton: explained, patched, measured.")
@click.option(
    "--fault", "name", default="single-instance", show_default=True, metavar="NAME", help="What is wrong with it."
)
@click.option("--keep", is_flag=True, help="Keep it running under its load until Ctrl-C, to try other commands on.")
@click.option("--list", "listing", is_flag=True, help="List the faults.")
@click.option(
    "--duration", "seconds", type=DURATION, help="Of each load; 25s, or what the fault needs. With --keep: of all, 1h."
)
@click.pass_context
def command(ctx: click.Context, name: str, keep: bool, listing: bool, seconds: float | None) -> None:
    """Show a real Triton with a known fault: explain it, apply the patch, measure again."""
    from diagnostics.demo.faults import fault_names, load_fault

    if listing:
        if keep or seconds is not None or is_given(ctx, "name"):
            raise UsageError("lists the faults and runs none", where="--list", hint="give it alone")
        for each in fault_names():
            click.echo(f"{each:<24}{load_fault(each).title}")
        return
    if seconds is not None and seconds < SHORTEST_LOAD:
        hint = f"give {SHORTEST_LOAD:g}s or more: less shows no cause"
        raise UsageError("is too short a load", where="--duration", hint=hint)
    if name not in fault_names():
        raise UsageError(
            f"there is no fault {name!r}", where="--fault", hint=nearest(name, fault_names(), "diag demo --list")
        )
    # Before the server is fetched and started: without a client there is nothing to show.
    try:
        import_module("diagnostics.loadgen.http_transports")
    except ModuleNotFoundError as error:
        raise not_installed(error, "demo", where="diag demo") from error
    fault = load_fault(name)
    if keep:
        _keep(fault, seconds)
    else:
        ctx.exit(EXIT_OK if _run(fault, seconds) else EXIT_FINDINGS)


def _run(fault: DemoFault, seconds: float | None) -> bool:
    from diagnostics.cli.demonstration import Demonstration
    from diagnostics.demo.environment import ensure_environment

    shortest = fault.load.duration if fault.release else 25.0
    return Demonstration(
        environment=ensure_environment(),
        fault=fault,
        seconds=seconds or max(shortest, SHORTEST_LOAD),
        say=_say,
        show=click.echo,
        progress=_progress,
        style=coloured,
    ).run()


def _keep(fault: DemoFault, seconds: float | None) -> None:
    from diagnostics.cli.demonstration import LONGEST_SECONDS, KeptDemonstration
    from diagnostics.demo.environment import ensure_environment

    KeptDemonstration(
        environment=ensure_environment(),
        fault=fault,
        seconds=min(seconds or LONGEST_SECONDS, LONGEST_SECONDS),
        say=_say,
        show=click.echo,
        progress=_progress,
    ).run()


def _say(line: str) -> None:
    click.echo(f"diag: {line}", err=True)


def _progress(state: LoadProgress, length: float) -> None:
    if sys.stderr.isatty():
        done = min(state.elapsed / length, 1.0)
        bar = "█" * round(30 * done)
        click.echo(f"\r  {bar:<30} {state.answered} answered, {state.errors} failed", err=True, nl=done >= 1.0)
