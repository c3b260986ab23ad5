"""`diag gen rules --replay`: how often each alert would have fired on the history that a Prometheus holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.sources import warn
from diagnostics.errors import CollectError, UsageError
from diagnostics.gen.alert import Alert, Firing, firings
from diagnostics.gen.files import every_alert
from diagnostics.gen.overview_page import metrics_read
from diagnostics.gen.rule_groups import alone
from diagnostics.wire.prometheus_answer import QueryResult, joined
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import PREFIX, PrometheusApi, TooMuch, parse_prometheus

STEP_SECONDS = 60.0
# A day of minutes is far below the 11,000 points that Prometheus gives at most; a store that refuses gets less.
_CHUNK_SECONDS = 86_400.0
_LEAST_CHUNK_SECONDS = 3_600.0
_LOOKS = 48
_SCRAPES = "count(up)"
# Stores refuse answers of more than 11,000 points.
_MOST_POINTS = 10_000
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReplay:
    """What an alert would have done, and what stands in the way of a whole answer."""

    alert: Alert
    firings: tuple[Firing, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def opened(url: str, options: SourceOptions) -> PrometheusApi:
    """Return the store at `url`; the prefix by which a source is known as one, and `http://`, may be left out.

    Raises:
        UsageError: it is no such address, or has a selector, which rules have not.

    """
    plain = url.removeprefix(PREFIX)
    address = parse_prometheus(PREFIX + (plain if "://" in plain else f"http://{plain}"))
    if address.matchers:
        raise UsageError("rules have no selector, and are replayed over all that is there", where=str(address))
    return PrometheusApi(address, options, announce=warn, less="--since")


def known(api: PrometheusApi, since: float) -> float:
    """Return how many of the last `since` seconds the store has a history of, by its oldest sample of any scrape.

    `since` itself where that began before, or no scrape is stored at all.

    Raises:
        UsageError: `since` reaches back beyond 1970.
        CollectError: the store does not answer.

    """
    end = api.clock() // STEP_SECONDS * STEP_SECONDS
    if since > end:
        raise UsageError("reaches back beyond 1970", where="--since", hint="write 12h or 7d")
    step = max(STEP_SECONDS, since / _MOST_POINTS)
    times = [at for one in api.ranged(_SCRAPES, end - since, end, step).series for at in one.times]
    # A store of the last minute has none at a full one.
    times += [end for one in api.instant(_SCRAPES).series if not times]
    if not times:
        warn("the store has no series up: whether it has a history of that time is not known")
    return min(since, max(end - min(times), STEP_SECONDS)) if times else since


def histories(api: PrometheusApi, since: float) -> tuple[list[AlertReplay], CollectError | None]:
    """Return the history of every alert over the last `since` seconds, by the store's clock, and why some are missing.

    Raises:
        CollectError: the store does not answer at all.

    """
    end = api.clock() // STEP_SECONDS * STEP_SECONDS
    start = end - since
    alerts = every_alert(catalogue())
    needed = {name for alert in alerts for name in metrics_read(alone(alert.expr))}
    there = _there(api, sorted(needed), start, end)
    found = list[AlertReplay]()
    for alert in alerts:
        try:
            found.append(_history(api, alert, there, start, end))
        except CollectError as error:
            what = f"{error.what} ({len(found)} of {len(alerts)} alerts are replayed)"
            return found, CollectError(what, where=error.where, hint=error.hint)
    return found, None


def report(found: Sequence[AlertReplay], since: float) -> Iterator[str]:
    """Yield the lines for people: alerts that fire most first, then the silent ones, then what does not exist."""
    yield f"over the last {lasting(since)}, evaluated every {lasting(STEP_SECONDS)}:"
    fired = sorted((one for one in found if one.firings), key=lambda one: -len(one.firings))
    yield from map(_line, fired)
    silent = [one.alert.name for one in found if not one.firings and not one.missing and not one.notes]
    yield f"{len(silent)} would have stayed silent{': ' if silent else ''}{_names(silent)}"
    blind: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        if one.missing and not one.firings:
            blind.setdefault(one.missing, []).append(one.alert.name)
    for missing, names in blind.items():
        yield f"{_names(names)} cannot be judged: no series {', '.join(missing)}"
    for one in found:
        yield from (f"{one.alert.name}: {note}" for note in one.notes)


def _line(one: AlertReplay) -> str:
    subjects = len({tuple(sorted(firing.labels.items())) for firing in one.firings})
    longest = max(firing.seconds for firing in one.firings)
    total = sum(firing.seconds for firing in one.firings)
    times = "once" if len(one.firings) == 1 else f"{len(one.firings)} times"
    return (
        f"{one.alert.name} ({one.alert.severity}) would have fired {times}, on {subjects} "
        f"{'subject' if subjects == 1 else 'subjects'}, for {lasting(total)} in all, "
        f"{lasting(longest)} at the longest"
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def lasting(seconds: float) -> str:
    """Return a time of minutes to weeks as an operator writes it: 2d 3h, 54m."""
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    parts = [(days, "d"), (hours, "h"), (rest // 60, "m"), (rest % 60, "s")]
    return " ".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def _there(api: PrometheusApi, names: Sequence[str], start: float, end: float) -> frozenset[str]:
    """Return which metrics have series at some of a few looks, or now: some may have begun since the last minute."""
    query = f'count by (__name__) ({{__name__=~"{"|".join(names)}"}})'
    looks = api.ranged(query, start, end, max((end - start) / _LOOKS, STEP_SECONDS)), api.instant(query)
    return frozenset(one.labels.get("__name__", "") for answer in looks for one in answer.series)


def _history(api: PrometheusApi, alert: Alert, there: frozenset[str], start: float, end: float) -> AlertReplay:
    expr = alone(alert.expr)
    # What comes after `unless` only takes away.
    needed = metrics_read(expr.partition(" unless ")[0])
    missing = tuple(name for name in needed if name not in there)
    if missing == needed and not expr.startswith("absent("):
        return AlertReplay(alert=alert, missing=missing)
    try:
        answer = joined(list(_requested(api, expr, start, end, _CHUNK_SECONDS)))
    except (TooMuch, UsageError) as error:
        return AlertReplay(alert=alert, notes=(str(error),))
    hold, keep = alert.hold_minutes * 60.0, alert.keep_minutes * 60.0
    found = (
        firing
        for one in answer.series
        for firing in firings(one.labels, one.times, hold=hold, step=STEP_SECONDS, keep=keep)
    )
    return AlertReplay(alert=alert, firings=tuple(found), missing=missing, notes=answer.warnings)


def _requested(api: PrometheusApi, expr: str, start: float, end: float, chunk: float) -> Iterator[QueryResult]:
    """Yield the answers to parts of the span, each so small that the store gives it."""
    at = start
    while at <= end:
        until = min(at + chunk - STEP_SECONDS, end)
        try:
            yield api.ranged(expr, at, until, STEP_SECONDS)
        except TooMuch:
            if chunk <= _LEAST_CHUNK_SECONDS:
                raise
            yield from _requested(api, expr, at, until, max(chunk / 4, _LEAST_CHUNK_SECONDS))
        at = until + STEP_SECONDS
