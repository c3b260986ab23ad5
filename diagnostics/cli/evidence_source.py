"""The evidence of a source, for verbs that look at a window without explaining it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from diagnostics.cli.options import DURATION, source_options
from diagnostics.cli.sources import Question, aloud, captured, looks_like_a_path
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.errors import CollectError, UsageError
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_address import is_prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whose evidence is wanted, and of when, as on the command line.

    Attributes:
        sources: servers, captures, or one Prometheus; empty for a history.
        question: the moment, and a repository for patches.
        window: seconds for which a server is read; None for as long as it takes.
        history: a directory of `diag serve`; None where the settings or the environment name it, or a source is given.
        deployment: which of the history's.
        config_file: the settings of `diag serve`.
        options: how servers are reached.

    """

    sources: tuple[str, ...]
    question: Question
    window: float | None
    history: Path | None
    deployment: str | None
    config_file: Path | None
    options: SourceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read, when and from whom."""

    evidence: Evidence
    window: WindowFacts


_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OPTIONS = (
    click.argument("sources", nargs=-1, metavar="[SOURCE]..."),
    click.option("--window", type=DURATION, help="Read a server for exactly this long, instead of up to 60s."),
    click.option("--at", metavar="TIME", help="In a recorded past: the moment to look at (UTC)."),
    click.option("--since", type=DURATION, help="In a recorded past: how long before that moment to look."),
    click.option("--history", type=_FOLDER, help="Instead of a SOURCE: where `diag serve` keeps what it read."),
    click.option("--deployment", metavar="NAME", help="Which deployment of the history."),
    click.option(
        "--config.file", "config_file", type=_FILE, help="Instead of a SOURCE: settings that name the history."
    ),
    click.option("--repository", type=_FOLDER, help="The model repository: patches are then diffs of its files."),
)
_NAMES = ("sources", "window", "at", "since", "history", "deployment", "config_file", "repository", "options")


def evidence_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give `command` the argument and options that name evidence, as its one argument `asked: Asked`."""

    @functools.wraps(command)
    def with_options(*arguments: object, **values: object) -> object:
        given = {name: values.pop(name) for name in _NAMES}
        question = Question(**{name: given.pop(name) for name in ("at", "since", "repository")})  # type: ignore[arg-type]
        return command(*arguments, asked=Asked(question=question, **given), **values)  # type: ignore[arg-type]

    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), source_options(with_options))


def see(asked: Asked) -> Seen:
    """Return the evidence that is asked for; what is lost of a damaged capture is told on standard error.

    Raises:
        UsageError: sources and options do not go together.
        CollectError: nothing could be read.

    """
    if asked.sources and (asked.history or asked.deployment or asked.config_file):
        raise UsageError("take the place of a SOURCE", where="--history, --deployment, --config.file")
    seen = _of_sources(asked) if asked.sources else _of_history(asked)
    if seen.window.end <= 0:
        raise CollectError("nothing was read", where=", ".join(asked.sources), hint="look at it with diag explain")
    return seen


def _of_sources(asked: Asked) -> Seen:
    sources = asked.sources
    if any(is_prometheus(source) for source in sources):
        from diagnostics.cli.stored import explain_stored

        stored = explain_stored(sources, asked.question, asked.window, asked.options)
        return Seen(evidence=stored.evidence, window=stored.window)
    on_disk = [looks_like_a_path(source) for source in sources]
    if all(on_disk):
        if asked.window is not None:
            raise UsageError("is for servers", where="--window", hint="cut a capture with --at and --since")
        return see_captures([Path(source) for source in sources], asked.question)
    if any(on_disk):
        raise UsageError("captures and servers cannot be read together", hint="name one kind of source")
    return _of_servers(asked)


def see_captures(paths: Sequence[Path], question: Question) -> Seen:
    """Return the evidence of recorded windows.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at.

    """
    window, names = captured(paths, question, aloud, [])
    return Seen(evidence=WindowEvidence(window), window=WindowFacts(start=window.start, end=window.end, sources=names))


def _of_servers(asked: Asked) -> Seen:
    if asked.question.at is not None or asked.question.since is not None:
        raise UsageError(
            "a server only tells of now", where="--at, --since", hint="record it, then look at the capture"
        )
    from diagnostics.cli.reading import explain_servers

    read, _ = explain_servers(asked.sources, asked.question, asked.window, asked.options)
    return Seen(evidence=read.evidence, window=read.window)


def _of_history(asked: Asked) -> Seen:
    from diagnostics.cli.remembered import explain_history, history_directory

    directory = history_directory(asked.history, asked.config_file)
    if directory is None:
        raise UsageError("name a server, a capture, a Prometheus, or --history", where="SOURCE")
    if asked.window is not None:
        raise UsageError("is for servers", where="--window", hint="cut a history with --at and --since")
    remembered = explain_history(directory, asked.deployment, asked.question)
    return Seen(evidence=remembered.evidence, window=remembered.window)
