"""From what the user names to a window: captures are replayed, URLs are read until the answer is sure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from diagnostics.diagnosis.certainty import reason_to_keep_reading
from diagnostics.diagnosis.explanation import BlindSpot, Explanation, explain_window
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import UsageError
from diagnostics.render.words import changes_told
from diagnostics.units import time_text
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.stretches import in_order, settings_changed, stretches
from diagnostics.window.window import Window, WindowBuilder, window_of
from diagnostics.wire.archive import ARCHIVES
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind, Scrape

# Configuration, repository and metadata hold for the whole capture, whichever part of it is looked at; the lines of
# logs and client records have times of their own.
TIMELESS = frozenset({BodyKind.CONFIG, BodyKind.REPOSITORY, BodyKind.SERVER, BodyKind.LOG, BodyKind.CLIENT})
_CLOCK = re.compile(r"^(\d{1,2}):(\d{2})(?::(\d{2}))?$")
Tell = Callable[[str], None]
SECONDS_BETWEEN_LOOKS = 2.0
LATEST_PAST_END = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """What is asked of a window, besides its sources.

    Attributes:
        at: the moment to look at, as given: a time of day (UTC), an ISO time or Unix seconds; None is the end.
        since: seconds before `at`; None is everything.
        objective: what latency must be.
        repository: a model repository whose files patches are made of.

    """

    at: str | None = None
    since: float | None = None
    objective: Objective | None = None
    repository: Path | None = None


def looks_like_a_path(source: str) -> bool:
    """Return whether a source names something on disk, or `-` for standard input.

    It exists, or is written as a path to an archive.
    """
    if not source or "://" in source:
        return False
    path = Path(source)
    return source == "-" or path.exists() or path.suffix in ARCHIVES or source.startswith((".", "/", "~"))


def explain_captures(paths: Sequence[Path], question: WindowOptions, tell: Tell) -> Explanation:
    """Return the explanation of recorded windows; what is lost of a damaged one is a blind spot.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at, or two captures name the same server.

    """
    blind_spots: list[BlindSpot] = []
    window, names = captured(paths, question, tell, blind_spots)
    return explain_window(window, sources=names, blind_spots=blind_spots, objective=question.objective)


def explain_newest(path: Path, question: WindowOptions, tell: Tell) -> Explanation:
    """Return the explanation of a recorded window, or of its part since settings were changed in it.

    The rest is as in `explain_captures`.
    """
    blind_spots: list[BlindSpot] = []
    window, names = captured([path], question, tell, blind_spots)
    newest = since_changed(window, tell, str(path))
    return explain_window(newest, sources=names, blind_spots=blind_spots, objective=question.objective)


def since_changed(window: Window, tell: Tell, name: str) -> Window:
    """Return the part of a window since settings were changed in it, and tell of that; all of it where none were."""
    sides = stretches(window, settings_changed(window))
    if sides is None:
        return window
    tell_changed(in_order(sides.changes), tell, name)
    return sides.after


def tell_changed(cuts: Sequence[tuple[str, ServerChange]], tell: Tell, name: str) -> None:
    """Tell that only the time since the newest change of settings is looked at."""
    tell(f"{name}: {changes_told(cuts)[-1]}; what was before is left out")


def captured(
    paths: Sequence[Path], question: WindowOptions, tell: Tell, blind_spots: list[BlindSpot]
) -> tuple[Window, tuple[str, ...]]:
    """Return the recorded window and whom it was read from; what is lost is appended to `blind_spots`.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at, or two captures name the same server.

    """
    scrapes = _between(_recorded(paths, tell, blind_spots), question)
    servers = tuple(dict.fromkeys(scrape.server for scrape in scrapes if scrape.server))
    scrapes += repository_of(question, servers)
    return window_of(scrapes), servers or tuple(str(path) for path in paths)


def _recorded(paths: Sequence[Path], tell: Tell, blind_spots: list[BlindSpot]) -> list[Scrape]:
    """Return what all captures hold. GPU samples name no server: those of several machines would be mixed up."""
    found: dict[Path, list[Scrape]] = {}
    owner: dict[str, Path] = {}
    for path in dict.fromkeys(path.expanduser() for path in paths):
        capture = open_capture(path)
        found[path] = list(capture.scrapes())
        if capture.damage:
            tell(f"{path}: {capture.damage}")
            blind_spots.append(
                BlindSpot(what=f"the rest of {path.name}", why=capture.damage, fix="copy or record it anew")
            )
        for server in {scrape.server for scrape in found[path] if scrape.server}:
            if owner.setdefault(server, path) != path:
                raise UsageError(
                    f"holds a server named {server!r}, as {owner[server]} does",
                    where=str(path),
                    hint="explain one capture at a time",
                )
    if sum(any(scrape.kind is BodyKind.NVML for scrape in scrapes) for scrapes in found.values()) and len(found) > 1:
        tell("GPU samples are not used: they do not say which capture's servers they belong to")
        return [scrape for scrapes in found.values() for scrape in scrapes if scrape.kind is not BodyKind.NVML]
    return [scrape for scrapes in found.values() for scrape in scrapes]


def until_sure(
    scrapes: Iterable[Scrape],
    question: WindowOptions,
    names: Sequence[str],
    blind_spots: Sequence[BlindSpot],
    tell: Tell,
    *,
    fixed: bool = False,
) -> Explanation:
    """Return the explanation of a live window, ended as soon as a longer one would say no more.

    Args:
        scrapes: what is read, in time order, ending by itself at the longest acceptable window.
        question: what is asked.
        names: the servers read.
        blind_spots: what could not be reached.
        tell: told why it goes on, each time the reason changes.
        fixed: read to the end whatever is seen.

    """
    builder = WindowBuilder()
    for scrape in repository_of(question, names):
        builder.add(scrape)
    previous: Explanation | None = None
    told, looked = "", 0.0
    for scrape in scrapes:
        builder.add(scrape)
        if fixed or scrape.mono - looked < SECONDS_BETWEEN_LOOKS:
            continue
        looked = scrape.mono
        now = explain_window(builder.build(), sources=names, blind_spots=blind_spots, objective=question.objective)
        reason = reason_to_keep_reading(now, previous)
        if not reason:
            return now
        if previous is not None and _kind(reason) != _kind(told):
            tell(f"reading on: {reason}")
            told = reason
        previous = now
    return explain_window(builder.build(), sources=names, blind_spots=blind_spots, objective=question.objective)


def _kind(reason: str) -> str:
    return re.sub(r"[0-9.]+", "", reason)


def repository_of(question: WindowOptions, servers: Sequence[str]) -> Iterator[Scrape]:
    """Yield the files of the repository that was given, for each server; nothing where none was."""
    if question.repository is None:
        return
    from exporters.sources.repository import repository_scrapes

    yield from repository_scrapes(question.repository, servers)


def _between(scrapes: list[Scrape], question: WindowOptions) -> list[Scrape]:
    if question.at is None and question.since is None:
        return scrapes
    times = [scrape.at for scrape in scrapes if scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS)]
    if not times:
        return scrapes
    end = moment(question.at, max(times)) if question.at is not None else max(times)
    start = end - question.since if question.since is not None else min(times)
    kept = [scrape for scrape in scrapes if scrape.kind in TIMELESS or start - 1e-3 <= scrape.at <= end + 1e-3]
    # Whoever names the minute in which a recording ended means its end.
    if end > max(times) + LATEST_PAST_END or not any(scrape.kind not in TIMELESS for scrape in kept):
        raise nothing_then("the capture", min(times), max(times))
    return kept


def nothing_then(recorded: str, first: float, last: float) -> UsageError:
    """Return the refusal of a time, with that which was recorded: its ends as Unix seconds."""
    hint = f"{recorded} covers {time_text(first)} to {time_text(last)}"
    return UsageError("nothing was recorded in that time", where="--at, --since", hint=hint)


def moment(text: str, last: float) -> float:
    """Return Unix seconds; a time of day is the latest such time up to the end of what was recorded.

    Up to `LATEST_PAST_END` after that end it is of the same day: who says the present minute, or the one in which a
    recording ended, does not mean yesterday's.
    """
    clock = _CLOCK.match(text)
    try:
        if clock is None:
            return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else _iso(text)
        hour, minute, second = (int(part or 0) for part in clock.groups())
        end = datetime.fromtimestamp(last, UTC)
        moment = end.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (
            moment if moment <= end + timedelta(seconds=LATEST_PAST_END) else moment - timedelta(days=1)
        ).timestamp()
    except ValueError:
        raise UsageError(
            f"cannot read the time {text!r}", where="--at", hint="write 03:12, 2026-11-27T03:12:00Z or Unix seconds"
        ) from None


def _iso(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def warn(text: str) -> None:
    """Tell on standard error."""
    click.echo(f"diag: {text}", err=True)
