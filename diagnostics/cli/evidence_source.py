"""What verbs that look at one window take as SOURCE, with the options that go with it, and how it is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diagnostics.cli.options import DURATION, connecting_given, places_given, source_options
from diagnostics.cli.saved_files import explain_saved, is_saved, saved_window
from diagnostics.cli.sources import (
    WindowOptions,
    announce_changes,
    captured,
    explain_captures,
    looks_like_a_path,
    since_changed,
    warn,
)
from diagnostics.diagnosis.explanation import Explanation, WindowFacts
from diagnostics.errors import CollectError, UsageError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import Window
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import is_prometheus

if TYPE_CHECKING:
    from diagnostics.diagnosis.proposing import SourceEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSource:
    """Whose evidence is wanted, and of when, as on the command line.

    Attributes:
        names: servers, captures, or one Prometheus; empty for a history.
        question: the moment, and a repository for patches.
        window: seconds for which a server is read; None for as long as it takes.
        history: a directory of `diag serve`; None where the settings or the environment name it, or a name is given.
        deployment: which of the history's.
        config_file: the settings of `diag serve`.
        options: how servers are reached.

    """

    names: tuple[str, ...]
    question: WindowOptions
    window: float | None
    history: Path | None
    deployment: str | None
    config_file: Path | None
    options: SourceOptions


_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OPTIONS = (
    click.argument("names", nargs=-1, metavar="[SOURCE]..."),
    click.option("--window", type=DURATION, help="Read a server for exactly this long, instead of up to 60s."),
    click.option("--at", metavar="TIME", help="In a recorded past: the moment to look at (UTC)."),
    click.option("--since", type=DURATION, help="In a recorded past: how long before that moment to look."),
    click.option("--history", type=_FOLDER, help="Instead of a SOURCE: where `diag serve` keeps what it read."),
    click.option("--deployment", metavar="NAME", help="Which deployment of the service or its history."),
    click.option(
        "--config.file",
        "config_file",
        type=_FILE,
        help="Instead of a SOURCE: the settings of `diag serve`, which name its history.",
    ),
    click.option("--repository", type=_FOLDER, help="The model repository: patches are then diffs of its files."),
)
_NAMES = ("names", "window", "at", "since", "history", "deployment", "config_file", "repository", "options")


def evidence_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give `command` the argument and options that name evidence, as its one argument `source: EvidenceSource`."""

    @functools.wraps(command)
    def with_options(*arguments: object, **values: object) -> object:
        given = {name: values.pop(name) for name in _NAMES}
        question = WindowOptions(**{name: given.pop(name) for name in ("at", "since", "repository")})  # type: ignore[arg-type]
        return command(*arguments, source=EvidenceSource(question=question, **given), **values)  # type: ignore[arg-type]

    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), source_options(with_options))


def see(source: EvidenceSource) -> SourceEvidence:
    """Return the evidence that is asked for, where settings were changed meanwhile of the time since.

    That, and what is lost of a damaged capture, is printed on standard error.

    Raises:
        UsageError: sources and options do not go together, or no source is named.
        CollectError: nothing could be read.

    """
    _check(source)
    if source.names and any(map(is_saved, source.names)):
        seen = _seen(saved_window(_all_saved(source), source.question), source.names)
    elif source.names and all(map(looks_like_a_path, source.names)):
        seen = see_captures([Path(name) for name in source.names], source.question)
    else:
        seen = _newest(explained(source)[0])
    if seen.window.end <= 0:
        raise CollectError("nothing was read", where=", ".join(source.names), hint="look at it with diag explain")
    return seen


def see_captures(paths: Sequence[Path], question: WindowOptions) -> SourceEvidence:
    """Return the evidence of recorded windows, where settings were changed meanwhile of the time since.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at.

    """
    window, names = captured(paths, question, warn, [])
    return _seen(since_changed(window, warn, ", ".join(map(str, paths))), names)


def _seen(window: Window, names: tuple[str, ...]) -> SourceEvidence:
    from diagnostics.diagnosis.proposing import SourceEvidence  # with all that forecasts take, which explain does not

    return SourceEvidence(
        evidence=WindowEvidence(window), window=WindowFacts(start=window.start, end=window.end, sources=names)
    )


def _newest(read: Explanation) -> SourceEvidence:
    """Return the evidence of an explanation, where settings were changed in its window of the time since."""
    from diagnostics.diagnosis.proposing import SourceEvidence

    if read.latest is None:
        assert isinstance(read.evidence, WindowEvidence)
        return SourceEvidence(evidence=read.evidence, window=read.window)
    announce_changes(read.cuts, warn, ", ".join(read.window.sources))
    return _seen(read.latest.window, read.window.sources)


def explained(source: EvidenceSource) -> tuple[Explanation, bool]:
    """Return the explanation of what is asked for, and whether some server could not be reached.

    Raises:
        UsageError: sources and options do not go together, or no source is named.
        CollectError: nothing could be read.

    """
    _check(source)
    if not source.names:
        return _of_history(source), False
    if any(map(is_prometheus, source.names)):
        from diagnostics.cli.sources import explain_stored

        return explain_stored(source.names, source.question, source.window, source.options), False
    if any(map(is_saved, source.names)):
        return explain_saved(_all_saved(source), source.question), False
    if all(map(looks_like_a_path, source.names)):
        return explain_captures([Path(name) for name in source.names], source.question, warn), False
    from diagnostics.cli.sources import explain_servers

    return explain_servers(source.names, source.question, source.window, source.options)


def _all_saved(source: EvidenceSource) -> tuple[str, ...]:
    """Return the saved files that are named.

    Raises:
        UsageError: a capture is among them, or a part of their time is asked for.

    """
    if not all(map(is_saved, source.names)):
        raise UsageError("captures and saved files cannot be read together", hint="name one kind of source")
    question = source.question
    cut = {"--at": question.at, "--since": question.since}
    if refused := [option for option, value in cut.items() if value is not None]:
        hint = "leave it out; name the files of that time"
        raise UsageError("is not for saved files", where=", ".join(refused), hint=hint)
    return source.names


def _check(source: EvidenceSource) -> None:
    """Refuse what does not go together before anything is read."""
    question = source.question
    beside = {"--history": source.history, "--deployment": source.deployment, "--config.file": source.config_file}
    refused = [option for option, value in beside.items() if source.names and value is not None]
    if refused:
        raise UsageError("not together with a SOURCE", where=", ".join(refused), hint="leave out one or the other")
    if source.history is not None and source.config_file is not None:
        raise UsageError("both name a history", where="--history, --config.file", hint="leave out one or the other")
    stored = any(map(is_prometheus, source.names))
    on_disk = [looks_like_a_path(name) for name in source.names]
    _check_reaching(source.options, on_disk=all(on_disk) and not stored, stored=stored)
    if stored:
        return
    if source.window is not None and all(on_disk):
        raise UsageError("is for servers", where="--window", hint="cut a recorded past with --at and --since")
    if any(on_disk) and not all(on_disk):
        other = source.names[on_disk.index(False)]
        hint = f"name one kind of source; there is no file {other}, so it is taken for a server"
        raise UsageError("captures and servers cannot be read together", hint=hint)
    if not all(on_disk) and (question.at is not None or question.since is not None):
        hint = "record it, then look at the capture"
        raise UsageError("a server only has current data", where="--at, --since", hint=hint)


def _check_reaching(options: SourceOptions, *, on_disk: bool, stored: bool) -> None:
    """Refuse options that reach what is not reached here: whoever gives them takes the answer for one about it."""
    refused = places_given(options) if on_disk or stored else []
    refused += connecting_given(options) if on_disk else []
    if refused:
        hint = "leave it out, or name the server as SOURCE"
        raise UsageError("is for servers", where=", ".join(refused), hint=hint)


def _of_history(source: EvidenceSource) -> Explanation:
    from diagnostics.cli.remembered import explain_history, history_directory

    directory = history_directory(source.history, source.config_file)
    if directory is None:
        raise UsageError("name a server, a capture, a Prometheus, or --history", where="SOURCE")
    if source.question.repository is not None:
        hint = "write repository = … for the server in the settings of diag serve"
        raise UsageError("is not read for a history", where="--repository", hint=hint)
    return explain_history(directory, source.deployment, source.question)
