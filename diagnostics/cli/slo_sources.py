"""The events of objectives from what a user names: recordings, a service's history, a Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnostics.cli.options import connecting_given
from diagnostics.cli.sources import looks_like_a_path, warn
from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError, UsageError
from diagnostics.slo.bins import Bins, Together
from diagnostics.slo.replaying import count_recorded
from diagnostics.slo.report import SloReport, report_on
from diagnostics.slo.slo import Slo, Triton
from diagnostics.store import raw
from diagnostics.units import time_text
from diagnostics.wire.capture import open_capture
from diagnostics.wire.capture_layout import MANIFEST
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.access import SourceOptions
from exporters.sources.address import safe
from exporters.sources.prometheus_api import is_prometheus

# As in triton:8000.
_PORT = re.compile(r":\d+/?$")
# Of the bodies of one deployment, all held at once.
_MOST_BYTES = 2 * 2**30
_NO_PROMQL = "its queries are PromQL: give prometheus+http://… as SOURCE"


def reports_from(
    sources: Sequence[str],
    slos: Sequence[Slo],
    *,
    period: float | None,
    config_file: Path | None,
    deployment: str | None,
    options: SourceOptions,
) -> tuple[list[SloReport], CollectError | None]:
    """Return how the objectives stand by what the sources hold, and why some are not among them.

    Raises:
        UsageError: a source is of no kind that shows it, or several of kinds that cannot be added.
        CollectError: a source cannot be read.

    """
    if len(sources) == 1 and is_prometheus(sources[0]):
        from diagnostics.cli.slo_prometheus import reports_from_prometheus

        return reports_from_prometheus(sources[0], slos, period, deployment, options)
    for source in sources:
        if is_prometheus(source):
            raise UsageError("is asked alone", where=safe(source), hint="name one source; Thanos or Mimir hold several")
        if not looks_like_a_path(source):
            raise _no_source(source)
    if refused := connecting_given(options):
        raise UsageError("is for servers", where=", ".join(refused), hint="leave it out: files are read here")
    mine = _countable(slos)
    paths = list({path.resolve(): path for path in (Path(source).expanduser() for source in sources)}.values())
    if not paths or (len(paths) == 1 and _is_history(paths[0])):
        return _from_history(paths[0] if paths else None, mine, period, config_file, deployment), None
    return _from_captures(paths, mine, period, deployment), None


def _is_history(path: Path) -> bool:
    """Return whether a folder is a history, and not a recording.

    Raises:
        CollectError: it is neither.

    """
    if (path / raw.FOLDER).is_dir():
        return True
    if path.is_dir() and not (path / MANIFEST).is_file():
        hint = "a history is what history.directory of its settings names"
        raise CollectError("is neither a recording nor a history of diag serve", where=str(path), hint=hint)
    return False


def _no_source(source: str) -> UsageError:
    if "://" in source or _PORT.search(source):
        hint = "record it with diag record, or let diag serve count"
        return UsageError("a server only has current data", where=source, hint=hint)
    hint = "name a recording, a history of diag serve, or prometheus+http://…"
    return UsageError("there is no such file or folder", where=source, hint=hint)


def _countable(slos: Sequence[Slo]) -> list[Slo]:
    mine = [slo for slo in slos if isinstance(slo.sli, Triton)]
    if not mine:
        raise UsageError(f"{slos[0].name} cannot be counted here", where=slos[0].where, hint=_NO_PROMQL)
    for slo in slos:
        if slo not in mine:
            warn(f"{slo.where}: {slo.name} is left out: {_NO_PROMQL}")
    return mine


def _from_captures(
    paths: Sequence[Path], slos: Sequence[Slo], period: float | None, deployment: str | None
) -> list[SloReport]:
    """Count recordings one by one: each is of servers of its own, and may be of another time."""
    found: dict[str, list[Bins]] = {slo.name: [] for slo in slos}
    last = 0.0
    for slo in slos:
        if deployment is None and isinstance(slo.sli, Triton) and slo.sli.deployment is not None:
            hint = f"say --deployment {slo.sli.deployment} where these are its servers"
            found[slo.name].append(Bins(f"it is about the deployment {slo.sli.deployment}; {hint}"))
    seen: dict[str, list[tuple[float, float, Path]]] = {}
    for path in paths:
        capture = open_capture(path)
        scrapes = list(capture.scrapes())
        if capture.damage:
            warn(f"{path}: {capture.damage}")
        _check_apart(path, scrapes, seen)
        last = max([last, *(scrape.at for scrape in scrapes)])
        for name, bins in _counted(deployment or path.name, slos, scrapes).items():
            found[name].append(bins)
    return [report_on(slo, Together(found[slo.name]), last, period=period) for slo in slos]


def _check_apart(path: Path, scrapes: Sequence[Scrape], seen: dict[str, list[tuple[float, float, Path]]]) -> None:
    """Refuse a recording of a server and a time of which another one was counted; its own is added to `seen`."""
    times: dict[str, list[float]] = {}
    for scrape in scrapes:
        if scrape.server and scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS):
            times.setdefault(scrape.server, []).append(scrape.at)
    for server, at in times.items():
        begin, end = min(at), max(at)
        for first, last, other in seen.setdefault(server, []):
            if first < end and begin < last:
                hint = "its events would count twice: name one of the two"
                raise UsageError(f"holds {server!r} at a time when {other} does", where=str(path), hint=hint)
        seen[server].append((begin, end, path))


def _counted(deployment: str, slos: Sequence[Slo], scrapes: Sequence[Scrape]) -> Mapping[str, Bins]:
    return count_recorded(deployment, slos, scrapes, warn)


def _from_history(
    directory: Path | None, slos: Sequence[Slo], period: float | None, config_file: Path | None, deployment: str | None
) -> list[SloReport]:
    from diagnostics.cli.slo_history import events_of, history_settings, incidents_of

    now = time.time()
    settings = history_settings(directory, config_file)
    since = now - max(period or 0.0, *(slo.period for slo in slos))
    incidents: Sequence[Incident] = incidents_of(settings, since)
    found = []
    for slo in slos:
        parts = events_of(settings, slo, since, deployment)
        if not any(part.over(since, now).tally.total > 0 for part in parts):
            parts = _from_bodies(settings.directory, slo, since, deployment, known=bool(parts)) or parts
        # For a service that ended, the last known state is reported.
        known = [until for part in parts if (until := part.until()) is not None]
        at = min(now, max(known, default=now))
        found.append(report_on(slo, Together(parts), at, period=period, incidents=incidents))
    return found


def _from_bodies(directory: Path, slo: Slo, since: float, deployment: str | None, *, known: bool) -> list[Bins]:
    """Count recorded bodies, where the service did not know the objective; nothing where none of its bodies are left.

    `known` is whether the service knew it.
    """
    there = raw.deployments(directory)
    names = [one for one in there if deployment in (None, one)]
    if not names and known:
        return []
    if not names and there:
        hint = f"there is {', '.join(there)}"
        raise UsageError(f"there is no deployment {deployment!r}", where=str(directory), hint=hint)
    if not names:
        raise CollectError("holds no history", where=str(directory), hint="give history.directory of `diag serve`")
    warn(f"{slo.name}: the service counted no events of it; recorded bodies are counted instead")
    now = time.time()
    found = []
    for one in names:
        past = raw.newest_scrapes(directory, one, since, now, _MOST_BYTES)
        if past.since is not None:
            warn(
                f"{one}: more than {_MOST_BYTES >> 30} GiB were recorded; the last {time_text(now - past.since)} count"
            )
        found.append(count_recorded(one, [slo], past.scrapes, warn))
    return [bins[slo.name] for bins in found if slo.name in bins]
