"""What a command found, on standard output in the form that was asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from diagnostics.cli.options import Decorator, coloured
from diagnostics.render.document import Document
from diagnostics.render.formats import form_names, written
from diagnostics.render.json_head import Json
from diagnostics.render.plain import legible
from diagnostics.render.text import as_text


def output_option(*more: str, help: str | None = None) -> Decorator:
    """Return the option `--output`; `more` are forms besides those of every document."""
    choices = click.Choice(["text", "json", *form_names(), *more])
    return click.option("--output", type=choices, default="text", show_default=True, help=help)


def show(
    output: str,
    document: Callable[[], Document],
    data: Callable[[], Json | bytes],
    page: Callable[[], str] | None = None,
    *,
    err: bool = False,
) -> None:
    """Print the document in a form, or the data as JSON; `page` is a richer one, and `err` for standard error."""
    if output == "json":
        found = data()
        text = found if isinstance(found, bytes) else f"{json.dumps(found, indent=1, allow_nan=False)}\n"
        click.echo(text, nl=False, err=err)
    elif output == "html" and page is not None:
        click.echo(page(), nl=False, err=err)
    elif output in form_names():
        click.echo(written(document(), output), nl=False, err=err)
    else:
        click.echo(as_text(document(), coloured, unicode=_shows_unicode()), nl=False, err=err)


def show_patch(text: str) -> None:
    """Print a patch: byte by byte for a program that applies it, and without escape sequences on a terminal."""
    click.echo(legible(text) if sys.stdout.isatty() else text, nl=False, color=True)  # else click strips some of it


def _shows_unicode() -> bool:
    """Whether bars may be blocks: not for a terminal without them, nor where NO_COLOR or TERM asks to be plain."""
    context = click.get_current_context(silent=True)
    return "utf" in (sys.stdout.encoding or "").lower() and not (context and context.color is False)
