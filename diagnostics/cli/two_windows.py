"""The two windows that a verb compares: two captures, or two moments of one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from diagnostics.cli.options import DURATION
from diagnostics.cli.sources import WindowOptions, looks_like_a_path
from diagnostics.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowChoice:
    """One of them: a capture, and which part of it is meant."""

    path: Path
    question: WindowOptions


_OPTIONS = (
    click.argument("captures", nargs=-1, required=True, metavar="BEFORE [AFTER]"),
    click.option(
        "--at", "moments", multiple=True, metavar="TIME", help="The end of a window (UTC); once for each side."
    ),
    click.option("--since", type=DURATION, help="How long before each moment to look."),
)


def two_windows(command: Callable[..., object]) -> Callable[..., object]:
    """Give `command` the argument and options that name two windows, as `before: Side` and `after: Side`."""

    @functools.wraps(command)
    def with_sides(
        *arguments: object, captures: Sequence[str], moments: Sequence[str], since: float | None, **values: object
    ) -> object:
        before, after = sides_of(captures, moments, since)
        return command(*arguments, before=before, after=after, **values)

    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), with_sides)


def sides_of(captures: Sequence[str], moments: Sequence[str], since: float | None) -> tuple[WindowChoice, WindowChoice]:
    """Return the two windows that are named.

    Raises:
        UsageError: what is given does not name two windows.

    """
    for capture in captures:
        if not looks_like_a_path(capture):
            raise UsageError("only captures can be compared", where=capture, hint="record the server with diag record")
    if len(captures) > 2:
        raise UsageError("two captures at most can be compared", where="BEFORE [AFTER]", hint="name two")
    if len(captures) == 1 and len(moments) != 2:
        hint = "name a second capture, or give --at twice"
        raise UsageError("one capture needs two moments", where="--at", hint=hint)
    if len(moments) not in (0, 2):
        hint = "give it twice, as in --at 03:05 --at 03:40"
        raise UsageError("give a moment for each side, or none", where="--at", hint=hint)
    if len(captures) == 1 and since is None:
        raise UsageError("says how long each side is", where="--since", hint="give it, as in --since 5m")
    question = WindowOptions(since=since)
    first, last = (replace(question, at=moment) for moment in moments or (None, None))
    return WindowChoice(path=Path(captures[0]), question=first), WindowChoice(path=Path(captures[-1]), question=last)
