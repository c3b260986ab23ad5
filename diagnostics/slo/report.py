"""Why nothing is known of an objective, and what to do: a wrong name, labels that no series has, or no traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from diagnostics import names
from diagnostics.diagnosis.incident import Incident
from diagnostics.slo.bins import BudgetCause, EventBin, EventSource, Tally
from diagnostics.slo.burn import BudgetForecast, Pair, WindowEvents, burn_rate, firing, forecast, pairs, share_interval
from diagnostics.slo.counting import counts_failures
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.window.window import Window

# More names than these are no help in a line.
_MOST_NAMES = 8
NOTHING_COUNTED = "nothing was counted in that time; look at its name, its deployment and the period"


def silence_of(sli: Triton, window: Window) -> str:
    """Return why a window shows no events of an objective, and what to do."""
    models = {model for server in window.servers.values() for model, _ in server.keys_seen()}
    if not models:
        return "no counters of any model were read; let Triton's metrics page (port 8002) be read, or its statistics"
    if sli.model not in models:
        return missing(sli.model, sorted(models))
    if sli.promise is Promise.AVAILABILITY and not counts_failures(sli, window):
        return uncounted(sli.model)
    tags = ", ".join(f"{name}={value}" for name, value in sli.tags)
    also = f" with {tags}, or no series has these labels (Triton's metric_tags)" if tags else ""
    return f"no request to {sli.model} ended between two reads{also}{_instead(window)}; look again while it is called"


def _instead(window: Window) -> str:
    """Return which models requests went to instead; empty where no request ended."""
    called = {key[0] for server in window.servers.values() for key in server.keys_seen() if server.requests_of(key) > 0}
    return f"; requests went to {_some(sorted(called))}" if called else ""


def uncounted(model: str) -> str:
    """Return that nothing counts failures, and what to do."""
    return (
        f"failures of {model} are not counted, so no request is known to be good; keep "
        f"{names.REQUEST_FAILURE} when pages are scraped, or let the statistics be read"
    )


def missing(model: str, there: Sequence[str]) -> str:
    """Return that no server has a model, and which ones there are."""
    return f"no server has a model {model!r}; there is {_some(there)}"


def untagged(model: str, name: str, value: str, there: Sequence[str]) -> str:
    """Return that no series of a model has a label with a value, and which values there are."""
    if not there:
        return f"no series of {model} has a label {name}; look at its name, and at Triton's metric_tags"
    return f"no series of {model} has {name}={value!r}; there is {_some(there)}"


def _some(there: Sequence[str]) -> str:
    return ", ".join(there[:_MOST_NAMES]) + (", …" if len(there) > _MOST_NAMES else "")


# A window is spoken of once so much of it was seen.
_LEAST_SEEN = 0.5
# The newest round may be old by a tenth of the shortest window: 30 s of five minutes.
_MOSTLY_SEEN = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """One window: events, and how fast the budget burned; `low` and `high` hold the rate at about 95 %.

    `seen` are the seconds of it in which events are known. `rate`, `low` and `high` are multiples of what is allowed,
    None where nothing happened.
    """

    seconds: float
    total: float
    bad: float
    rate: float | None
    low: float | None
    high: float | None
    seen: float

    @property
    def partly(self) -> bool:
        """Whether much of the window was not measured; what is newer than the last round does not count."""
        return self.seen < _MOSTLY_SEEN * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one cause took: bad events, their share of all that were bad, and the incidents it made meanwhile."""

    cause: BudgetCause
    bad: float
    share: float
    incidents: tuple[Incident, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SloReport:
    """How one objective stands at Unix second `at`.

    Attributes:
        slo: what is promised.
        at: the end of the period.
        period: its length in seconds.
        seen: seconds of it in which events are known, 0 for none.
        tally: the period's events, as far as they are known.
        allowed: bad events that the period allows, at the traffic that was seen; extrapolated where `seen` is shorter.
        burns: the alerts' windows, shortest first, of which half was seen; else the shortest alone.
        alerts: pairs of windows that are an alert now.
        forecast: when the budget will be spent; None where nothing was counted.
        spent: the causes, the costliest first.
        unexplained: share of the bad events that no cause took.
        silence: why there were no events, and what to do; empty where there were some.
        gaps: what the source could not show, and what to do.

    """

    slo: Slo
    at: float
    period: float
    seen: float
    tally: Tally
    allowed: float
    burns: tuple[Burn, ...]
    alerts: tuple[Pair, ...]
    forecast: BudgetForecast | None
    spent: tuple[Spent, ...]
    unexplained: float
    silence: str = ""
    gaps: tuple[str, ...] = ()

    @property
    def good(self) -> float | None:
        """The share of good events; None where there were none."""
        return 1.0 - self.tally.bad / self.tally.total if self.tally.total > 0 else None

    @property
    def left(self) -> float | None:
        """The share of the budget that is left, below 0 when it is overspent; None where there were no events."""
        return 1.0 - self.tally.bad / self.allowed if self.allowed > 0 else None


def report_on(
    slo: Slo, seen: EventSource, at: float, *, period: float | None = None, incidents: Iterable[Incident] = ()
) -> SloReport:
    """Return how an objective stands.

    Args:
        slo: what is promised.
        seen: returns its events.
        at: Unix seconds of now.
        period: over which the budget is reckoned; the objective's own by default.
        incidents: those of the time, so that causes can be linked to them.

    """
    length = period or slo.period
    known = _known(seen, at - length, at)
    whole = seen.over(at - length, at)
    allowed = slo.allowed * whole.tally.total * (length / known if known else 0.0)
    windows = pairs(slo.period)
    actionable = [one for one in windows if one.severity not in slo.quiet]
    lengths = {seconds for pair in windows for seconds in (pair.short, pair.long)}
    counted = {seconds: _counted(seen, at, seconds) for seconds in lengths}
    reported = [seconds for seconds in sorted(lengths) if counted[seconds].seconds >= _LEAST_SEEN * seconds]
    return SloReport(
        slo=slo,
        at=at,
        period=length,
        seen=known,
        tally=whole.tally,
        allowed=allowed,
        burns=tuple(_burn(counted[seconds], slo.allowed, seconds) for seconds in reported or [min(lengths)]),
        alerts=tuple(
            one
            for one in actionable
            if one.long in reported and firing(one, counted[one.long], counted[one.short], slo.allowed)
        ),
        forecast=forecast(allowed - whole.tally.bad, [counted[one.long] for one in windows]),
        spent=_spent(whole, [*incidents]),
        unexplained=_unexplained(whole),
        silence="" if whole.tally.total > 0 else seen.no_data_reason() or NOTHING_COUNTED,
    )


def _known(seen: EventSource, start: float, end: float) -> float:
    """Return the seconds in which events are known; 0 for none, else at least one."""
    spans = seen.known(start, end)
    return max(sum(until - since for since, until in spans), 1.0) if spans else 0.0


def _counted(seen: EventSource, at: float, seconds: float) -> WindowEvents:
    tally = seen.over(at - seconds, at).tally
    return WindowEvents(
        seconds=_known(seen, at - seconds, at), total=tally.total, bad=tally.bad, low=tally.low, high=tally.high
    )


def _burn(one: WindowEvents, allowed: float, seconds: float) -> Burn:
    rate = burn_rate(one.bad, one.total, allowed)
    low, _ = share_interval(min(one.bad, one.low), one.total)
    _, high = share_interval(max(one.bad, one.high), one.total)
    return Burn(
        seconds=seconds,
        total=one.total,
        bad=one.bad,
        rate=rate,
        low=low / allowed if rate is not None else None,
        high=high / allowed if rate is not None else None,
        seen=one.seconds,
    )


def _spent(whole: EventBin, incidents: Sequence[Incident]) -> tuple[Spent, ...]:
    bad = whole.tally.bad
    if bad <= 0:
        return ()
    by_cause: Mapping[str, list[Incident]] = {
        name: [one for one in incidents if one.fingerprint == name] for name in {one.fingerprint for one in incidents}
    }
    found = [
        Spent(cause=cause, bad=took, share=min(took / bad, 1.0), incidents=tuple(by_cause.get(cause.fingerprint, ())))
        for cause, took in whole.causes.items()
        if took > 0
    ]
    return tuple(sorted(found, key=lambda one: (-one.bad, one.cause)))


def _unexplained(whole: EventBin) -> float:
    bad = whole.tally.bad
    return max(1.0 - sum(whole.causes.values()) / bad, 0.0) if bad > 0 else 0.0
