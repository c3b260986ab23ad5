"""How an objective stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.checks.catalogue import catalogue
from diagnostics.render.document import Block, Document, Headline, Point, Points
from diagnostics.slo.burn import BudgetForecast
from diagnostics.slo.counting import AVERAGES
from diagnostics.slo.report import Burn, SloReport, Spent
from diagnostics.slo.slo import LONGEST_PERIOD, Promise, Promql, Slo, Triton
from diagnostics.units import Unit, span, time_text

_SMALLEST = 0.01


def promise(slo: Slo) -> str:
    """Return what is promised: `99 % of requests to chat within 500 ms`."""
    share = f"{slo.objective * 100:.6g} %"
    if isinstance(slo.sli, Promql):
        return f"{share} of events good, by its own queries"
    whose = f"requests to {slo.sli.model}"
    tags = ", ".join(f"{name}={value}" for name, value in slo.sli.tags)
    whose += f" ({tags})" if tags else ""
    if slo.sli.promise is Promise.AVAILABILITY:
        return f"{share} of {whose} answered"
    limit = Unit.SECONDS.show(slo.sli.seconds)
    first = "with the first token " if slo.sli.promise is Promise.FIRST_TOKEN else ""
    return f"{share} of {whose} {first}within {limit}"


def heading(report: SloReport) -> str:
    """Return what is promised, and over which time it is reckoned."""
    requested, own = span(report.period), span(report.slo.period)
    return f"{promise(report.slo)}, over {requested}" + ("" if requested == own else f" (its own period is {own})")


def events(report: SloReport) -> str:
    """Return how many events there were, and how many were bad, as surely as it is known; of none, why."""
    tally = report.tally
    if tally.total <= 0:
        return f"no events: {report.silence}"
    over = "" if is_measured(report) else f"measured in {span(report.seen)}: "
    total = f"{over}{tally.total:,.0f} events"
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
        return "the budget is unknown"
    spent = Unit.RATIO.show(1.0 - report.left) + _bounds(report)
    allowed = f"{report.allowed:,.0f}" if report.allowed >= 10 else f"{report.allowed:.2g}"
    text = f"{spent} of the budget of {allowed} bad events in {span(report.period)} is spent"
    if is_measured(report):
        return text
    # Without a bad event more, the spent share falls as the traffic that the budget is reckoned from grows.
    return f"{text}; the budget is extrapolated from {span(report.seen)} of traffic and moves with it"


def is_measured(report: SloReport) -> bool:
    """Return whether all of the period was measured, so that nothing of its budget is extrapolated."""
    return report.seen >= 0.99 * report.period


def budget_left(report: SloReport) -> str:
    """Return the same in a few words, `38 % of the budget of chat-latency left`; empty where nothing is known."""
    if report.left is None:
        return ""
    if report.left < 0:
        return f"{Unit.RATIO.show(1.0 - report.left)} of the budget of {report.slo.name} spent"
    return f"{Unit.RATIO.show(report.left)} of the budget of {report.slo.name} left"


def _bounds(report: SloReport) -> str:
    """Return between which shares of the budget the spent one lies; empty where each bad event was counted."""
    if report.tally.counted:
        return ""
    low, high = (Unit.RATIO.show(value / report.allowed) for value in (report.tally.low, report.tally.high))
    return f" ({low} to {high})"


def burns(report: SloReport) -> str:
    """Return how fast the budget burned in each window; at 1 the period spends all of it."""
    return f"burn rate: {', '.join(map(burn, report.burns))}"


def burn(one: Burn) -> str:
    """Return how fast one window burns."""
    if one.rate is None:
        return f"no events in {span(one.seconds)}"
    partly = f", of which {span(one.seen)} were measured" if one.partly else ""
    return f"{one.rate:.3g} ({_rate(one.low or 0)} to {_rate(one.high or 0)}) over {span(one.seconds)}{partly}"


def _rate(value: float) -> str:
    """Return a burn rate with two digits or, above ten, as a whole number: never as a power of ten."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def ending(found: BudgetForecast | None) -> str:
    """Return when the budget will be gone."""
    if found is None:
        return "no count shows when the budget will be spent"
    if found.expected is not None and found.expected <= 0:
        return "the budget is spent"
    soonest = span(found.soonest) if found.soonest is not None else "never"
    if found.expected is None:
        # No period is longer: what is spent later is not spent in any.
        early = found.soonest is not None and found.soonest <= LONGEST_PERIOD
        worst = f"; at worst it is spent in {soonest}" if early else ""
        return f"extrapolated from the last {span(found.over)}, the budget lasts{worst}"
    latest = span(found.latest) if found.latest is not None else "never"
    bounds = f"({soonest} to {latest})"
    return f"extrapolated from the last {span(found.over)}, the budget is spent in {span(found.expected)} {bounds}"


def alerts(report: SloReport) -> Iterator[str]:
    """Yield a line per pair of windows that is an alert."""
    for one in report.alerts:
        windows = f"{span(one.long)} and {span(one.short)}"
        yield f"{one.severity}: {windows} burn at least {one.factor:.3g} times as fast as allowed"


def shares(parts: Sequence[float]) -> list[str]:
    """Return shares that add up to 1 as whole percents that add up to 100; less than one is shown as such.

    The largest remainders are rounded up (Hamilton's method).
    """
    small = [0 < part < _SMALLEST for part in parts]
    exact = [0.0 if tiny else part * 100 for part, tiny in zip(parts, small, strict=True)]
    whole = [int(value) for value in exact]
    missing = round(sum(exact)) - sum(whole)
    for at in sorted(range(len(exact)), key=lambda at: whole[at] - exact[at])[:missing]:
        whole[at] += 1
    nearly = any(small)
    texts = (">99 %" if value == 100 and nearly else f"{value} %" for value in whole)
    return ["<1 %" if tiny else text for tiny, text in zip(small, texts, strict=True)]


def spent(report: SloReport) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what each cause took with its incidents, and what none took; nothing where nothing was bad.

    Failed requests have a cause each. Late ones are shared out by the time that a cause takes of a request.
    """
    if report.tally.bad <= 0:
        return
    *took, rest = shares([*(one.share for one in report.spent), report.unexplained])
    sli = report.slo.sli
    of = "" if not isinstance(sli, Triton) or sli.promise is Promise.AVAILABILITY else " of the time"
    for share, one in zip(took, report.spent, strict=True):
        yield f"{share}{of} went to {cause(one)}", list(incident_lines(one))
    if report.unexplained > 0:
        yield f"{rest}{of} is unexplained", ()


def gaps(report: SloReport) -> Iterator[str]:
    """Yield what is not known, and what would show it."""
    if not report.tally.counted and AVERAGES in report.tally.source.split(" and "):
        yield "how many were late; Triton 24.11 and later counts with --metrics-config histogram_latencies=true"
    yield from report.gaps


def cause(one: Spent) -> str:
    """Return what a cause is: `single-instance-serialization of safety on triton-0`, and its title."""
    what = one.cause.check
    of = f" of {one.cause.model}" if one.cause.model else ""
    on = f" on {one.cause.server}" if one.cause.server else ""
    return f"{what}{of}{on}{_title(one)}"


def _title(one: Spent) -> str:
    known = catalogue().get(one.cause.check)
    return f": {known.title}" if known is not None else ""


def incident_lines(one: Spent) -> Iterator[str]:
    """Yield a line per incident of a cause."""
    for found in one.incidents:
        # Whether it lasts, only a service that goes on knows.
        until = (
            f" until {time_text(found.closed)}" if found.closed is not None else f", last seen {time_text(found.seen)}"
        )
        yield f"incident {found.id[:12]}, since {time_text(found.onset)}{until}: {found.summary}"


def slo_document(reports: Sequence[SloReport]) -> Document:
    """Return how each objective stands."""
    return [block for report in reports for block in _blocks(report)]


def _blocks(report: SloReport) -> Iterator[Block]:
    yield Headline(verdict=report.slo.name, text=heading(report))
    yield Points(items=list(_points(report)), marked=False)


def _points(report: SloReport) -> Iterator[str | Point]:
    yield events(report)
    if report.tally.total > 0:
        yield budget(report)
        yield burns(report)
        if report.left is not None:
            yield ending(report.forecast)
    yield from (Point(text=line, strong=True) for line in alerts(report))
    for text, incidents in spent(report):
        yield text
        yield from (Point(text=line, depth=1) for line in incidents)
    yield from (f"not known: {line}" for line in gaps(report))
