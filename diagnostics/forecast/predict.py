"""Forecasts of a fitted deployment: simulated many times, so that each number has its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from diagnostics.forecast.estimate import opened
from diagnostics.forecast.fitted import Fitted, check_visits, outcome_of
from diagnostics.forecast.load import open_rate, relaxation_seconds
from diagnostics.forecast.performance import Estimate, Forecast, Performance
from diagnostics.forecast.runs import DRAWS, Draw, ScenarioRun, drawn, summary
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.draws import arrivals, stream
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop, Scenario
from diagnostics.units import Unit

# What is forecast is a window like the measured one: at most a minute, at least ten seconds.
_LONGEST, _SHORTEST = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class _Length:
    """How long a run is: so many requests for its 99th percentile and so many relaxation times for its mean, in no more
    visits to stages than can be afforded.
    """

    requests: int
    relaxations: float
    visits: int


# Recorded arrivals leave only the executions to chance, whose luck the mean of so many runs halves and halves again.
_MOST_REPEATS = 16
# Further than any draw's seed is from the central run's.
_STRIDE = 1_000_003
# Visits take about 20 µs each: 20 draws and a central run stay within two seconds where queues are short, five else.
_DRAW = _Length(400, 100.0, 4_000)
_CENTRAL = _Length(3_000, 1_000.0, 40_000)
# A run sees requests through: it is so many times as long as one takes alone. Clients in a closed loop, who begin all
# at once, have a turn before it is looked at, one in which they ask, and one in which they are answered.
_PASSAGES, _TURNS = 5.0, 2.0
# Queues are empty when a run begins: it is not looked at for this part of its length, or two relaxation times of its
# slowest queue, but for at most three times its length.
_WARMUP, _RELAXATIONS, _LONGEST_WARMUP = 0.2, 2.0, 3.0


def forecast(fitted: Fitted, what_if: WhatIf, *, seed: int = 0, draws: int = DRAWS) -> Forecast:
    """Return what a change would do: the deployment as fitted, and changed, each by `performance`.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = changed(fitted, what_if)
    before = changed(fitted, WhatIf(traffic=what_if.traffic)) if what_if.traffic else fitted
    baseline = _performance(before, seed, draws)
    stated = () if what_if.traffic else unlike(fitted.measured.mean, baseline)
    return Forecast(
        baseline=baseline,
        predicted=_performance(after, seed, draws),
        measured_mean=fitted.measured.mean,
        measured_p95=fitted.measured.p95,
        assumptions=(*after.assumptions, *stated),
    )


def unlike(measured: float | None, baseline: Performance) -> tuple[str, ...]:
    """Say where the model's account of the window, `baseline`, is not the mean measured in it; nothing where it is."""
    mean = baseline.mean
    if measured is None or baseline.accounts_for(measured):
        return ()
    ours = "no stable queue" if mean is None else Unit.SECONDS.show(mean.value)
    return (
        f"The simulation gives {ours}, but {Unit.SECONDS.show(measured)} was measured. Treat this prediction as rough",
    )


def performance(
    fitted: Fitted,
    what_if: WhatIf | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    replay_warmup_seconds: float = 0.0,
    replay_seconds: float | None = None,
    visits: int | None = None,
) -> Performance:
    """Return what requests to the fitted entry would experience; the same for the same seed.

    Values are those of a run with central values of all that is not known, as long as can be afforded. Intervals are
    the least and most of `draws` runs of the measured window's length, each with other values of what is not known: of
    20, they hold another window's value with 19 / 21 = 90 % probability. Where arrivals are replayed, requests of the
    first `replay_warmup_seconds` are not looked at, and those that follow for `replay_seconds`, by default to the last
    arrival; the values are then the mean of several runs, which differ in how long executions take. `visits` to stages,
    where given, are the most that central runs make while they are looked at: a search does not need what a report
    does.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = fitted if what_if is None else changed(fitted, what_if)
    length = _CENTRAL if visits is None else replace(_CENTRAL, visits=visits, requests=min(_CENTRAL.requests, visits))
    replayed = _replayed(after.scenario) - replay_warmup_seconds if replay_seconds is None else replay_seconds
    return _performance(after, seed, draws, _Span(replay_warmup_seconds, max(replayed, _SHORTEST / 1e3)), length)


def _performance(
    fitted: Fitted, seed: int, draws: int, replay: _Span | None = None, length: _Length = _CENTRAL
) -> Performance:
    replayed = _replayed(fitted.scenario)
    if replayed:
        central = window = replay or _Span(0.0, replayed)
        scenario, repeats = fitted.scenario, _repeats(fitted, central, length)
    else:
        central, window = _spans(fitted, length, draws)
        scenario, repeats = _steady(fitted.scenario, central, seed), 1
    centrals = [_run(scenario, central, seed + number * _STRIDE) for number in range(repeats)]
    each = (Draw(number=number, of=draws, seed=seed) for number in range(draws))
    runs = [_run(drawn(fitted, draw), window, seed * draws + draw.number + 1) for draw in each]
    return summary(fitted, centrals, runs)


@dataclass(frozen=True, slots=True)
class _Span:
    """Seconds that a run takes before it is looked at, and for which it is."""

    warmup: float
    seconds: float


def _repeats(fitted: Fitted, span: _Span, length: _Length) -> int:
    """Return how many runs over the same arrivals make as many visits as one run of drawn ones would."""
    visits = _visits_per_second(fitted) * (span.warmup + span.seconds)
    return min(max(round(length.visits / max(visits, 1.0)), 1), _MOST_REPEATS)


def _spans(fitted: Fitted, length: _Length, draws: int) -> tuple[_Span, _Span]:
    """Return the length of the run with central values, and of a draw."""
    at_most = min(max(fitted.measured.span_seconds, _SHORTEST), _LONGEST)
    rate, turn = max(_visits_per_second(fitted), 1e-9), _turn_seconds(fitted)
    at_least = max(_PASSAGES * _alone(fitted), _TURNS * turn)
    each = (_seconds(fitted, rate, length, inf), _seconds(fitted, rate, _DRAW, at_most))
    check_visits(fitted.scenario, rate * (at_least + turn) * (draws + 1))
    lengths = (max(seconds, at_least) for seconds in each)
    central, window = (_Span(max(_warmup(fitted.scenario, seconds), turn), seconds) for seconds in lengths)
    return central, window


def _replayed(scenario: Scenario) -> float:
    """Return how long recorded arrivals go on; 0 where there are none."""
    return max((one.times[-1] for one in scenario.traffic if isinstance(one, OpenLoop) and one.times), default=0.0)


def _visits_per_second(fitted: Fitted) -> float:
    """Return the visits to stages per second; a closed loop's by its closed form."""
    steps = {entry.name: len(entry.steps) for entry in fitted.scenario.entries}
    traffic = opened(fitted).traffic
    return sum(open_rate(one) * steps[one.entry] for one in traffic if isinstance(one, OpenLoop))


def _alone(fitted: Fitted) -> float:
    """Return the seconds that a request to the entry takes with nobody beside it, about."""
    models = {model.name: model for model in fitted.scenario.models}
    entry = next(one for one in fitted.scenario.entries if one.name == fitted.entry)
    return sum(step.gap_seconds + models[step.model].alone + step.tail_seconds for step in entry.steps)


def _turn_seconds(fitted: Fitted) -> float:
    """Return the seconds from one request of a client in a closed loop to its next: clients ÷ rate (Little's law)."""
    clients = {one.entry: one.clients for one in fitted.scenario.traffic if isinstance(one, ClosedLoop)}
    rates = {one.entry: open_rate(one) for one in opened(fitted).traffic if isinstance(one, OpenLoop)}
    return max((count / rates[name] for name, count in clients.items() if rates[name] > 0), default=0.0)


def _seconds(fitted: Fitted, visits_per_second: float, length: _Length, at_most: float) -> float:
    steps = len(next(entry.steps for entry in fitted.scenario.entries if entry.name == fitted.entry))
    wanted = max(length.requests * steps / visits_per_second, length.relaxations * relaxation_seconds(fitted.scenario))
    return min(wanted, at_most, max(length.visits, length.requests) / visits_per_second)


def _warmup(scenario: Scenario, seconds: float) -> float:
    return min(max(_WARMUP * seconds, _RELAXATIONS * relaxation_seconds(scenario)), _LONGEST_WARMUP * seconds)


def _steady(scenario: Scenario, span: _Span, seed: int) -> Scenario:
    """Return the scenario with drawn arrivals stretched so that exactly the mean number of them comes.

    A run of finite length has more or fewer by chance, on which queues depend most.
    """
    length = span.warmup + span.seconds
    return replace(scenario, traffic=tuple(_stretched(one, length, seed) for one in scenario.traffic))


def _stretched(traffic: OpenLoop | ClosedLoop, seconds: float, seed: int) -> OpenLoop | ClosedLoop:
    if isinstance(traffic, ClosedLoop) or traffic.rate <= 0:
        return traffic
    count = max(round(traffic.rate * seconds), 1)
    times = list(islice(arrivals(traffic, stream(seed, f"steady {traffic.entry}")), count + 1))
    return replace(traffic, times=tuple(at * seconds / times[-1] for at in times[:-1]))


def _run(scenario: Scenario, span: _Span, seed: int) -> ScenarioRun:
    return ScenarioRun(scenario, outcome_of(scenario, seconds=span.seconds, warmup_seconds=span.warmup, seed=seed))


# A gain below this is not worth an instance: it is half of what a diagnosis calls a typical error of a forecast.
WORTHWHILE_GAIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One value, as given, and what is forecast of it."""

    value: str
    performance: Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSweep:
    """A series of values of one setting, or of the load.

    Attributes:
        name: what is varied, as in `safety.instance_group.count`, `rate` or `clients`.
        model: the model whose setting it is; None for a load.
        points: in the order in which they were given.
        now: position of the value in effect; None where it is not among them.
        knee: position of the value beyond which more brings no more; None where no value keeps up,
            or a setting's values have no order.

    """

    name: str
    model: str | None
    points: tuple[SweepPoint, ...]
    now: int | None
    knee: int | None


def knee_of_setting(points: Sequence[Performance]) -> int | None:
    """Return the first value after which no later one takes a worthwhile and certain part off the mean.

    Worthwhile is 5 % of the mean; certain is more than the width of the later value's interval, as both sides err by
    what is not known of the deployment, and the value that is moved to is the one that is promised. None where no value
    keeps up.
    """
    for at, one in enumerate(points):
        if _mean(one) is not None and not any(_gains(one, later) for later in points[at + 1 :]):
            return at
    return None


def knee_of_load(points: Sequence[Performance]) -> int | None:
    """Return the load of the greatest power, throughput ÷ mean latency; None where none is surely kept up with.

    Below it the server could do more at little cost; above it requests mostly wait. Source: Kleinrock, "Power and
    deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979. A load that may not
    be kept up with is none to run at.
    """
    powers = {at: _power(one) for at, one in enumerate(points)}
    known = {at: power for at, power in powers.items() if power is not None}
    return max(known, key=lambda at: known[at], default=None)


def _gains(one: Performance, later: Performance) -> bool:
    now, then = _mean(one), _mean(later)
    if now is None or then is None:
        return False
    width = then.high - then.low if then.high is not None else float("inf")
    return now.value - then.value >= max(WORTHWHILE_GAIN * now.value, width)


def _power(one: Performance) -> float | None:
    mean = _mean(one)
    sure = mean is not None and mean.high is not None and mean.value > 0
    return one.throughput.value / mean.value if mean is not None and sure else None


def _mean(one: Performance) -> Estimate | None:
    return one.mean if one.stable else None


__all__ = ["DRAWS", "forecast", "performance"]
