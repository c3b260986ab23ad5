"""`diag demo`: a real Triton with a known fault, explained and mended."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from diagnostics.cli.near_matches import nearest
from diagnostics.cli.options import DURATION
from diagnostics.cli.terminal import coloured
from diagnostics.errors import EXIT_FINDINGS, EXIT_OK, UsageError

_EPILOG = """\b
Examples:
  diag demo
  diag demo --fault batch-window-long
  diag demo --list

\b
The server is NVIDIA's own, from PyPI (60 MB at first use), without a GPU: its
stages sleep where a GPU would compute. It listens on loopback only, and nothing
of it is left behind. $DIAG_TRITON_ENV names an environment that has it already.
Exit: 0 the fault's own cause was named, 1 it was not, 2 usage, 3 no server.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--fault", "name", default="single-instance", show_default=True, metavar="NAME", help="What is wrong with it."
)
@click.option("--list", "listing", is_flag=True, help="List the faults.")
@click.option("--duration", "seconds", type=DURATION, help="Of each load; 25s, or what the fault needs.")
@click.pass_context
def command(ctx: click.Context, name: str, listing: bool, seconds: float | None) -> None:
    """Show a real Triton with a known fault: explain it, apply the patch, measure again."""
    from diagnostics.demo.faults import fault_names, load_fault

    if listing:
        for each in fault_names():
            click.echo(f"{each:<24}{load_fault(each).title}")
        return
    if name not in fault_names():
        raise UsageError(
            f"there is no fault {name!r}", where="--fault", hint=nearest(name, fault_names(), "diag demo --list")
        )
    ctx.exit(EXIT_OK if _run(name, seconds) else EXIT_FINDINGS)


def _run(name: str, seconds: float | None) -> bool:
    from diagnostics.cli.demonstration import Demonstration
    from diagnostics.demo.environment import ensure_environment
    from diagnostics.demo.faults import load_fault
    from diagnostics.demo.load import LoadProgress

    # Before the server is fetched and started: without a client there is nothing to show.
    import_module("diagnostics.demo.client")
    fault = load_fault(name)
    shortest = fault.load.duration if fault.release else 25.0

    def progress(state: LoadProgress, length: float) -> None:
        if sys.stderr.isatty():
            done = min(state.elapsed / length, 1.0)
            bar = "█" * round(30 * done)
            click.echo(f"\r  {bar:<30} {state.answered} answered, {state.errors} failed", err=True, nl=done >= 1.0)

    return Demonstration(
        environment=ensure_environment(),
        fault=fault,
        seconds=max(seconds or shortest, 12.0),
        say=lambda line: click.echo(f"diag: {line}", err=True),
        show=click.echo,
        progress=progress,
        style=coloured,
    ).run()
