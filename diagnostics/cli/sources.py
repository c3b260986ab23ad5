"""Live servers as several verbs read them: found first, then read with what stands beside them."""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from diagnostics.cli.options import DURATION
from diagnostics.diagnosis.certainty import reason_to_keep_reading
from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation, WindowFacts
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import EXIT_COLLECT, CollectError, UsageError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.render.phrases import changes_reported
from diagnostics.units import DECIMAL, time_text, utc
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.stretches import in_order, settings_changed, stretches
from diagnostics.window.window import Window, WindowBuilder, window_of
from diagnostics.wire.archive import ARCHIVES
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.dcgm import dcgm_page
from exporters.sources.machine import Machine
from exporters.sources.prometheus_api import parse_prometheus
from exporters.sources.schedule import PATIENCE, Source, collect
from exporters.sources.triton import TritonServer, discover_all

LONGEST_SECONDS = 60.0
INTERVAL_SECONDS = 1.0


def found(sources: Sequence[str], options: SourceOptions) -> tuple[list[TritonServer], list[CollectError]]:
    """Return the servers that were found, and why others were not, which is printed on standard error.

    Raises:
        Exit: with code 3, none was found.

    """
    servers, unfound = discover_all(sources, options)
    for failure in unfound:
        warn(str(failure))
    if not servers:
        raise click.exceptions.Exit(EXIT_COLLECT)
    return servers, unfound


@contextmanager
def opened(servers: Sequence[TritonServer], beside: Sequence[Source]) -> Iterator[list[Source]]:
    """Yield what is read each round: the servers, their machine where they run on it, and what stands beside them.

    Servers and machine are closed afterwards.
    """
    with ExitStack() as stack:
        machine = Machine(servers)
        stack.callback(machine.close)
        for server in servers:
            stack.callback(server.close)
        yield [*servers, *([machine] if machine.local else []), *beside]


def explain_servers(
    sources: Sequence[str], question: WindowOptions, window: float | None, options: SourceOptions
) -> tuple[Explanation, bool]:
    """Return the explanation of servers as they are now, and whether some source could not be reached.

    They are read for exactly `window` seconds; None reads for as long as it takes to be sure.
    """
    servers, unfound = found(sources, options)
    names = [server.name for server in servers]
    known = [spot for server in servers for spot in server.blind_spots]
    seconds = window or LONGEST_SECONDS
    with opened(servers, dcgm_page(options)) as read_from:
        scrapes = collect(
            read_from,
            min(INTERVAL_SECONDS, seconds / 4),
            seconds=seconds,
            left=lambda name: known.append(_left(name)),
        )
        explanation = until_sure(_timed(scrapes), question, names, known, _warn_below, fixed=window is not None)
    return replace(explanation, window=reached(explanation.window, servers)), bool(unfound)


def reached(window: WindowFacts, servers: Sequence[TritonServer]) -> WindowFacts:
    """Return the facts with what each server was called, and where its HTTP API is."""
    addresses = {one.name: one.http_url for one in servers if one.http_url}
    return replace(window, addresses=addresses, given={one.name: one.given for one in servers if one.given})


_CLEARED = "\r\033[K"


def _timed(scrapes: Iterable[Scrape]) -> Iterator[Scrape]:
    """Yield the scrapes, and show on a terminal how long they have been read."""
    if not sys.stderr.isatty():
        yield from scrapes
        return
    began, shown = time.monotonic(), -1
    try:
        for scrape in scrapes:
            elapsed = int(time.monotonic() - began)
            if elapsed > shown:
                shown = elapsed
                click.echo(f"{_CLEARED}reading for {elapsed} s, at most {LONGEST_SECONDS:.0f} s", err=True, nl=False)
            yield scrape
    finally:
        click.echo(_CLEARED, err=True, nl=False)


def _warn_below(text: str) -> None:
    """Print on standard error, over the line that was printed last."""
    if sys.stderr.isatty():
        click.echo(_CLEARED, err=True, nl=False)
    warn(text)


def _left(name: str) -> BlindSpot:
    return BlindSpot(
        what=f"the last round of {name}",
        why=f"it was not complete {PATIENCE:g} s after it began",
        fix="read again; where it stays so, shorten --timeout, and look at what slows this source down",
    )


# Configuration, repository and metadata hold for the whole capture, whichever part of it is looked at; the lines of
# logs and client records have times of their own.
TIMELESS = frozenset({BodyKind.CONFIG, BodyKind.REPOSITORY, BodyKind.SERVER, BodyKind.LOG, BodyKind.CLIENT})
_CLOCK = re.compile(r"^([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?$")
Announce = Callable[[str], None]
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
        validation: how causes are held against forecasts; None where only the evidence is wanted.

    """

    at: str | None = None
    since: float | None = None
    objective: Objective | None = None
    repository: Path | None = None
    validation: Validation | None = None

    def diagnosis(self, sources: Sequence[str], blind_spots: Sequence[BlindSpot]) -> DiagnosisOptions:
        """Return what is asked of the diagnosis of what was read."""
        return DiagnosisOptions(
            sources=sources, blind_spots=blind_spots, objective=self.objective, validation=self.validation
        )


_SAVED = (".json", ".txt", ".prom")


def looks_like_a_path(source: str) -> bool:
    """Return whether a source names something on disk, or `-` for standard input.

    It exists, or is written as a path to an archive or to a file that is saved in JSON or as text.
    """
    if not source or "://" in source:
        return False
    path = Path(source)
    return source == "-" or path.exists() or path.suffix in (*ARCHIVES, *_SAVED) or source.startswith((".", "/", "~"))


def explain_captures(paths: Sequence[Path], question: WindowOptions, announce: Announce) -> Explanation:
    """Return the explanation of recorded windows; what is lost of a damaged one is a blind spot.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at, or two captures name the same server.

    """
    blind_spots: list[BlindSpot] = []
    window, names = captured(paths, question, announce, blind_spots)
    return diagnose(window, question.diagnosis(names, blind_spots))


def explain_newest(path: Path, question: WindowOptions, announce: Announce) -> Explanation:
    """Return the explanation of a recorded window, or of its part since settings were changed in it.

    The rest is as in `explain_captures`.
    """
    blind_spots: list[BlindSpot] = []
    window, names = captured([path], question, announce, blind_spots)
    newest = since_changed(window, announce, str(path))
    return diagnose(newest, question.diagnosis(names, blind_spots))


def since_changed(window: Window, announce: Announce, name: str) -> Window:
    """Return the part of a window since settings were changed in it, and announce it; all of it where none were."""
    sides = stretches(window, settings_changed(window))
    if sides is None:
        return window
    announce_changes(in_order(sides.changes), announce, name)
    return sides.after


def announce_changes(cuts: Sequence[tuple[str, ServerChange]], announce: Announce, name: str) -> None:
    """Announce that only the time since the newest change of settings is looked at."""
    announce(f"{name}: {changes_reported(cuts)[-1]}; what was before is left out")


def captured(
    paths: Sequence[Path], question: WindowOptions, announce: Announce, blind_spots: list[BlindSpot]
) -> tuple[Window, tuple[str, ...]]:
    """Return the recorded window and whom it was read from; what is lost is appended to `blind_spots`.

    Raises:
        CaptureError: a path is not a capture.
        UsageError: `at` or `since` leaves nothing to look at, or two captures name the same server.

    """
    scrapes = _between(_recorded(paths, announce, blind_spots), question)
    servers = tuple(dict.fromkeys(scrape.server for scrape in scrapes if scrape.server))
    scrapes += repository_of(question, servers)
    patience = ReadingPatience(sum(map(_size, paths)))
    window = window_of(scrapes, go_on=patience.lasts)
    if patience.over:
        announce(patience.reason)
        spot = BlindSpot(what="what was recorded last", why=patience.reason, fix="read a part of it: --at and --since")
        blind_spots.append(spot)
    return window, servers or tuple(str(path) for path in paths)


_READ_SECONDS, _READ_SECONDS_PER_MB, _MOST_READ_SECONDS = 4.0, 4.0, 60.0
_FOLDED = 20  # how many times as large as an archive the same bodies are in a folder


class ReadingPatience:
    """How long recordings are read: what is made to take hours takes a minute at most.

    A recording of a busy server takes two seconds of processor time for each MB of its archive (ours).

    Attributes:
        over: whether something was left out.

    """

    def __init__(self, size: int) -> None:
        """`size` is the bytes of the archives."""
        self._seconds = min(max(_READ_SECONDS, _READ_SECONDS_PER_MB * size / 1e6), _MOST_READ_SECONDS)
        self._begun, self.over = time.process_time(), False

    @property
    def reason(self) -> str:
        """Why something was left out."""
        return f"recordings of this size are read for {self._seconds:.0f} s of processor time, and this takes longer"

    def lasts(self) -> bool:
        """Return whether to go on."""
        self.over = self.over or time.process_time() - self._begun > self._seconds
        return not self.over


def _size(path: Path) -> int:
    path = path.expanduser()
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) // _FOLDED
    return path.stat().st_size


def _recorded(paths: Sequence[Path], announce: Announce, blind_spots: list[BlindSpot]) -> list[Scrape]:
    """Return what all captures hold. GPU samples name no server: those of several machines would be mixed up."""
    found: dict[Path, list[Scrape]] = {}
    owner: dict[str, Path] = {}
    for path in dict.fromkeys(path.expanduser() for path in paths):
        capture = open_capture(path)
        found[path] = list(capture.scrapes())
        if capture.damage:
            announce(f"{path}: {capture.damage}")
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
        announce("GPU samples are not used: they do not say which capture's servers they belong to")
        return [scrape for scrapes in found.values() for scrape in scrapes if scrape.kind is not BodyKind.NVML]
    return [scrape for scrapes in found.values() for scrape in scrapes]


def until_sure(
    scrapes: Iterable[Scrape],
    question: WindowOptions,
    names: Sequence[str],
    blind_spots: Sequence[BlindSpot],
    announce: Announce,
    *,
    fixed: bool = False,
) -> Explanation:
    """Return the explanation of a live window, ended as soon as a longer one would say no more.

    Args:
        scrapes: what is read, in time order, ending by itself at the longest acceptable window.
        question: what is asked.
        names: the servers read.
        blind_spots: what could not be reached.
        announce: called with the reason why it goes on, each time the reason changes.
        fixed: read to the end whatever is seen.

    """
    builder = WindowBuilder()
    for scrape in repository_of(question, names):
        builder.add(scrape)
    options = question.diagnosis(names, blind_spots)
    previous: Explanation | None = None
    reported, looked = "", 0.0
    for scrape in scrapes:
        builder.add(scrape)
        if fixed or scrape.mono - looked < SECONDS_BETWEEN_LOOKS:
            continue
        looked = scrape.mono
        evidence = WindowEvidence(builder.build())
        now = diagnose(evidence, replace(options, validation=None))
        reason = reason_to_keep_reading(now, previous)
        if not reason:
            return diagnose(evidence, options)
        if previous is not None and _kind(reason) != _kind(reported):
            announce(f"reading on: {reason}")
            reported = reason
        previous = now
    return diagnose(builder.build(), options)


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
            return float(text) if re.fullmatch(DECIMAL, text) else _iso(text)
        hour, minute, second = (int(part or 0) for part in clock.groups())
        end = utc(last)
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
    """Print on standard error."""
    click.echo(f"diag: {text}", err=True)


def explain_stored(
    sources: Sequence[str], question: WindowOptions, window: float | None, options: SourceOptions
) -> Explanation:
    """Return the explanation of a span of what one store scraped.

    Raises:
        UsageError: other sources are beside it, an option does not fit, or the store cannot read the selector.
        CollectError: the store does not answer, or holds nothing of a Triton.

    """
    if len(sources) > 1:
        raise UsageError(
            "a Prometheus is explained alone", hint="name one source; a selector chooses among its servers"
        )
    if window is not None and question.since is not None:
        raise UsageError("mean the same here", where="--window, --since", hint="give one of them")
    from exporters.sources.prometheus import read_window
    from exporters.sources.prometheus_api import PrometheusApi

    api = PrometheusApi(parse_prometheus(sources[0]), options, announce=warn)
    end, seconds = _span(question, window, api.clock())
    configured = question.repository is not None
    stored = read_window(api, end, seconds, warn, configured=configured)
    builder = WindowBuilder()
    for scrape in repository_of(question, stored.servers):
        builder.add(scrape)
    for record in stored.records:
        builder.add_parsed(record)
    return diagnose(builder.build(), question.diagnosis(stored.servers, stored.blind_spots))


def _span(question: WindowOptions, window: float | None, now: float) -> tuple[float, float | None]:
    """Return the last moment to look at, by the store's clock, and for how long before it; None is not said."""
    end = moment(question.at, now) if question.at is not None else now
    if end > now + LATEST_PAST_END:
        clock = time_text(now)
        raise UsageError("lies in the future", where="--at", hint=f"the store's clock is at {clock}")
    if end <= 0:
        raise UsageError("lies before 1970", where="--at", hint="write 03:12, 2026-11-27T03:12:00Z or Unix seconds")
    seconds = window or question.since
    if seconds is not None and seconds > end:
        option = "--since" if window is None else "--window"
        raise UsageError("reaches back beyond 1970", where=option, hint="write 5m, 12h or 7d")
    return min(end, now), seconds


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
        # A name without a port is rather a file that is not there than a server.
        if ":" in capture and not looks_like_a_path(capture):
            hint = "name two files, as in before.tar.xz; record a server with diag record"
            raise UsageError("only captures can be compared", where=capture, hint=hint)
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
