"""What is shown on a terminal: `click.echo` takes the colour away again where none is shown, or none is wanted."""

from __future__ import annotations

import click


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour of `click.style`; as it is where `colour` is empty."""
    return click.style(text, fg=colour) if colour else text
