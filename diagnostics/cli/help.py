"""`diag help`: the help of the program or of one verb, for those who type it so."""

from __future__ import annotations

import click

from diagnostics.errors import EXIT_OK

_EPILOG = """\b
Examples:
  diag help               what there is
  diag help explain       the options of a verb
  diag help slo rules

\b
Exit: 0 shown, 2 there is no such verb.
"""


@click.command(epilog=_EPILOG)
@click.argument("verbs", nargs=-1, metavar="[VERB]...")
@click.pass_context
def command(ctx: click.Context, verbs: tuple[str, ...]) -> int:
    """Show the help of a verb, or of the program."""
    context = ctx.find_root()
    for verb in verbs:
        below = context.command.get_command(context, verb) if isinstance(context.command, click.Group) else None
        if below is None:
            raise click.UsageError(f"No such command '{verb}'.", context)
        context = click.Context(below, info_name=verb, parent=context)
    click.echo(context.get_help(), color=ctx.color)
    return EXIT_OK
