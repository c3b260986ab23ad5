"""Brings generated files up to date, or names those that are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click


def update(wanted: Mapping[Path, str], folder: Path, *, check: bool, present: Iterable[Path] = ()) -> int:
    """Write files whose text differs, and remove those that are generated no longer; print a line for each.

    Args:
        wanted: the text of each generated file.
        folder: paths are shown from there.
        check: change nothing.
        present: generated files that are there; those that nobody wants are removed.

    Returns:
        The exit code: 1 if `check` and anything is stale, else 0.

    """
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    stray = sorted(set(present) - set(wanted))
    for path in (*stale, *stray):
        click.echo(f"{'stale, run make generate' if check else 'updated'}: {path.relative_to(folder)}")
    if check:
        return int(bool(stale or stray))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], "utf-8")
    for path in stray:
        path.unlink()
    return 0
