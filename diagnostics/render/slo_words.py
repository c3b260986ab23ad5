"""How an objective stands, in words that every output uses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from diagnostics.checks.catalogue import catalogue
from diagnostics.render.clean import clean
from diagnostics.slo.burn import Forecast
from diagnostics.slo.report import Burn, SloReport, Spent
from diagnostics.slo.slo import Promise, Promql, Slo
from diagnostics.slo.tally import Tally
from diagnostics.units import Unit

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def span(seconds: float) -> str:
    """Return a length of time as people write it: `30d`, `6h`, `90s`."""
    for size, unit in _UNITS:
        if seconds >= size and abs(seconds / size - round(seconds / size)) < 1e-6:
            return f"{seconds / size:.0f}{unit}"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.3g}s"


def promise(slo: Slo) -> str:
    """Return what is promised: `99 % of requests to chat within 500 ms`."""
    share = f"{slo.objective * 100:.6g} %"
    if isinstance(slo.sli, Promql):
        return f"{share} of events good, by its own queries"
    whose = f"requests to {clean(slo.sli.model)}"
    tags = ", ".join(f"{clean(name)}={clean(value)}" for name, value in slo.sli.tags)
    whose += f" ({tags})" if tags else ""
    if slo.sli.promise is Promise.AVAILABILITY:
        return f"{share} of {whose} answered"
    limit = Unit.SECONDS.show(slo.sli.seconds)
    first = "with the first token " if slo.sli.promise is Promise.FIRST_TOKEN else ""
    return f"{share} of {whose} {first}within {limit}"


def events(tally: Tally) -> str:
    """Return how many events there were, and how many were bad, as surely as it is known."""
    if tally.total <= 0:
        return "no events"
    total = f"{tally.total:,.0f} events"
    source = f" (from {tally.source})" if tally.source else ""
    if tally.counted:
        return f"{total}, {tally.bad:,.0f} bad{source}"
    sure = abs(tally.bad - tally.low) < 0.5
    if sure:
        return f"{total}, at least {tally.low:,.0f} and at most {tally.high:,.0f} bad{source}"
    return f"{total}, about {tally.bad:,.0f} bad ({tally.low:,.0f} to {tally.high:,.0f}){source}"


def budget(report: SloReport) -> str:
    """Return how much of the budget is spent."""
    if report.left is None:
        return "nothing can be said of the budget"
    spent = Unit.RATIO.show(1.0 - report.left)
    allowed = f"{report.allowed:,.0f}" if report.allowed >= 10 else f"{report.allowed:.2g}"
    text = f"{spent} of {span(report.period)}'s budget of {allowed} bad events is spent"
    return text if report.seen >= 0.99 * report.period else f"{text}; {span(report.seen)} of it was seen"


def burn(one: Burn) -> str:
    """Return how fast one window burns."""
    if one.rate is None:
        return f"{span(one.seconds)} no events"
    return f"{span(one.seconds)} {one.rate:.3g} ({_rate(one.low or 0)} to {_rate(one.high or 0)})"


def _rate(value: float) -> str:
    """Return a burn rate with two digits or, above ten, as a whole number: never as a power of ten."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def ending(found: Forecast | None) -> str:
    """Return when the budget will be gone."""
    if found is None:
        return "nothing was counted that would tell when the budget is spent"
    if found.expected is not None and found.expected <= 0:
        return "the budget is spent"
    soonest = span(found.soonest) if found.soonest is not None else "never"
    if found.expected is None:
        return f"at the pace of the last {span(found.over)} it lasts ({soonest} at the worst)"
    latest = span(found.latest) if found.latest is not None else "never"
    return f"at the pace of the last {span(found.over)} it is spent in {span(found.expected)} ({soonest} to {latest})"


def alerts(report: SloReport) -> Iterator[str]:
    """Yield a line per pair of windows that is an alert."""
    for one in report.alerts:
        windows = f"{span(one.long)} and {span(one.short)}"
        yield f"{one.severity}: {windows} burn at least {one.factor:.3g} times as fast as allowed"


def cause(one: Spent) -> str:
    """Return what a cause took: `72 % went to single-instance-serialization of safety on triton-0`."""
    what = clean(one.cause.check)
    of = f" of {clean(one.cause.model)}" if one.cause.model else ""
    on = f" on {clean(one.cause.server)}" if one.cause.server else ""
    return f"{Unit.RATIO.show(one.share)} went to {what}{of}{on}{_title(one)}"


def _title(one: Spent) -> str:
    known = catalogue().get(one.cause.check)
    return f": {known.title}" if known is not None else ""


def incident_lines(one: Spent) -> Iterator[str]:
    """Yield a line per incident of a cause."""
    for found in one.incidents:
        until = f"until {_time(found.closed)}" if found.closed is not None else "and lasts"
        yield f"incident {found.id[:12]}, since {_time(found.onset)} {until}: {clean(found.summary)}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unexplained(report: SloReport) -> str:
    """Return what no cause took; empty where nothing was bad."""
    if report.tally.bad <= 0:
        return ""
    return f"{Unit.RATIO.show(report.unexplained)} is unexplained"
