"""An engine's iteration loop, fitted to its window: how long iterations are, by requests and by tokens of prompts.

An iteration takes `base` + `per_request` x requests that decode + `per_token` x tokens of prompts that it reads. The
first two are a line through the stretches between reads: the mean time between tokens over the mean number of requests
that decode, which is the sum of the times between tokens over the stretch (Little's law). What a prompt costs is the
time to the first token, less the wait for a slot, less the iteration around it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp, sqrt
from random import Random
from statistics import fmean

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_loop import EngineLimits, EngineLoad, IterationCost
from diagnostics.forecast.engine_window import (
    FEWEST_POINTS,
    GAPS,
    Interval,
    IterationPoint,
    MeasuredEngine,
    limits_of_engine,
    load_of_engine,
    mean_ratio,
    measured_engine,
    points_of,
    refuse_several_tokens,
    shown_part,
)
from diagnostics.forecast.engines import engine_drift
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.signals.engine_history import EngineHistory, EngineStep
from diagnostics.signals.signal import Subject
from diagnostics.units import Unit
from diagnostics.wire.engine import EngineSample
from diagnostics.wire.servers.kind import ServerKind

# Requests that decode have to differ by this part of their mean, from the stretches with few to those with many, for
# the slope between them to be seen.
_LEAST_SPREAD = 0.25
# The part of a decoding iteration that grows with its requests, where that was not seen. Reading the weights, which all
# share, bounds few requests; their keys and values bound many: an engine that imitates measured ones takes from 6 ms to
# 34 ms as its cache fills (NVIDIA Dynamo 1.6.1, mocker).
_MOST_CROWDING = 0.8
# Tokens that may take this many times as long at one end of the interval as at the other say nothing of a change.
_MOST_UNCERTAIN = 1.5
# First tokens that tell what a prompt costs where nobody waits for a slot.
_FEWEST_FIRSTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLoop:
    """An engine as it was in the window.

    Attributes:
        on: the engine.
        kind: the kind of server; None inside Triton.
        limits: what bounds its iterations.
        cost: seconds of an iteration.
        load: what it is asked for.
        draws: costs by other samples of the window's stretches.
        crowding_seen: whether the window shows how iterations lengthen with more requests.
        lengths_vary: bounds of the variability of lengths that no histogram tells: of prompts, of answers.
        measured: what the window shows.
        assumptions: what the fit rests on.
        slots_stated: whether its slots were read.
        prompt_now, held_now: in the window, tokens of a prompt, and those that a request holds in the cache.
        error: standard deviation of an iteration's time from one window to another, as a share of it.

    """

    on: Subject
    kind: ServerKind | None
    limits: EngineLimits
    cost: IterationCost
    load: EngineLoad
    draws: tuple[IterationCost, ...]
    crowding_seen: bool
    lengths_vary: tuple[Interval | None, Interval | None]
    measured: MeasuredEngine
    assumptions: tuple[str, ...]
    slots_stated: bool
    prompt_now: float
    held_now: float
    error: float = 0.0

    def drawn(self, number: int, seed: int) -> FittedLoop:
        """Return the engine with one draw of what is not known."""
        rng = Random(f"{seed}/{number}")  # noqa: S311 (nothing here is secret)
        prompt, answer = (
            one if bounds is None else replace(one, scv=bounds[0] + (bounds[1] - bounds[0]) * rng.random())
            for one, bounds in zip((self.load.prompt, self.load.answer), self.lengths_vary, strict=True)
        )
        cost = self.draws[number % len(self.draws)]
        # Whether reading a prompt takes longer with its length, and decoding with what requests hold in the cache, or
        # whether all cost the same, is not seen where lengths are as they are: either may be so.
        fixed, alike = rng.random() * cost.per_token, rng.random() * cost.per_held
        cost = replace(
            cost,
            per_token=cost.per_token - fixed,
            per_part=fixed * self.prompt_now,
            per_held=cost.per_held - alike,
            per_request=alike * self.held_now,
        )
        if self.error:
            cost = cost.scaled(exp(rng.gauss(0.0, self.error)))
        return replace(self, cost=cost, load=replace(self.load, prompt=prompt, answer=answer))

    def middle(self) -> FittedLoop:
        """Return the engine with the middle of what its draws allow: half of what lengths may cost, they do."""
        cost = self.cost
        cost = replace(
            cost,
            per_token=cost.per_token / 2,
            per_part=cost.per_token / 2 * self.prompt_now,
            per_held=cost.per_held / 2,
            per_request=cost.per_held / 2 * self.held_now,
        )
        return replace(self, cost=cost)


def is_loop(evidence: WindowEvidence, on: Subject) -> bool:
    """Return whether an entry is an engine that is served by itself, so that its loop is all that there is."""
    return on.model is not None and evidence.is_engine(on) and evidence.server_kind(on) is not None


def fit_loop(evidence: WindowEvidence, on: Subject) -> FittedLoop:
    """Return an engine's loop.

    Raises:
        Unpredictable: what it needs was not read; the message says what to read.

    """
    history = evidence.engine_history(on)
    steps = history.steps
    if not steps or not sum(step.ended for step in steps):
        raise Unpredictable("no request was completed in the window", where=on.model or "", hint=_UNDER_LOAD)
    points = points_of(history)
    if len(points) < FEWEST_POINTS:
        raise Unpredictable("how long its iterations take was not read", where=on.model or "", hint=GAPS)
    measured = measured_engine(history, points)
    load, vary, stated = load_of_engine(history, measured, on.model or "")
    refuse_several_tokens(history, measured, load, on.model or "")
    limits, more, slots_stated = limits_of_engine(evidence, on, history, load)
    fitting = _Fitting(history, points, measured, load, limits)
    cost = fitting.cost(points)
    rng = Random("stretches")  # noqa: S311 (nothing here is secret)
    draws = tuple(fitting.drawn(rng) for _ in range(_DRAWS))
    return FittedLoop(
        on=on,
        kind=evidence.server_kind(on),
        limits=limits,
        cost=cost,
        load=load,
        draws=draws,
        crowding_seen=fitting.seen,
        lengths_vary=vary,
        measured=measured,
        assumptions=(*stated, *more, *fitting.assumptions()),
        slots_stated=slots_stated,
        prompt_now=load.prompt.mean,
        held_now=fitting.held,
        error=engine_drift(evidence, on),
    )


_DRAWS = 20
_UNDER_LOAD = "read a window in which requests come"
_LOAD_VARIES = (
    "record a window in which the load varies, as by diag bench with --concurrency 1,2,4,8, and predict from that"
)


class _Fitting:
    """The cost of an iteration from points, and from times to first tokens."""

    def __init__(
        self,
        history: EngineHistory,
        points: Sequence[IterationPoint],
        measured: MeasuredEngine,
        load: EngineLoad,
        limits: EngineLimits,
    ) -> None:
        self._points, self._measured, self._load, self._limits = points, measured, load, limits
        timed = any(step.queued_seconds is not None for step in history.steps)
        self._firsts = () if timed or _noted_at_end(history) else _unqueued(history, limits.slots)
        self.seen = _spread(points) >= _LEAST_SPREAD
        self.shown = shown_part(history, measured)
        # A request is half written on average, and leaves half of its last block empty.
        self.held = load.prompt.mean + load.answer.mean / 2 + (limits.block_tokens - 1) / 2
        self._most = min(limits.slots, limits.cache_tokens / self.held)

    def drawn(self, rng: Random) -> IterationCost:
        """Return the cost by as many stretches, drawn from the window's with some of them several times."""
        points = rng.choices(self._points, k=len(self._points))
        firsts = rng.choices(self._firsts, k=len(self._firsts)) if self._firsts else ()
        return self.cost(points, firsts, rng.random())

    def cost(
        self, points: Sequence[IterationPoint], firsts: Sequence[EngineStep] = (), share: float = 0.5
    ) -> IterationCost:
        """Return the cost; `share` is how probable less is for a request that decodes, by default the middle."""
        line, per_token = (0.0, 0.0), 0.0
        for _ in range(_ROUNDS):
            line = self._line(points, per_token, share)
            found = self._per_token(line, firsts or self._firsts)
            per_token = _slope_of_tokens(points, line) if found is None else found
        # What each request adds is the reading of its keys and values, as the weights are read for all at once (Pope et
        # al. 2022, "Efficiently scaling transformer inference").
        return IterationCost(base=line[0], per_held=line[1] / self.held, per_token=per_token)

    def _line(self, points: Sequence[IterationPoint], per_token: float, share: float) -> tuple[float, float]:
        """Return seconds of an iteration, and of each request that decodes in it, without what prompts add."""
        x, y = _middle(points, per_token)
        if not self.seen:
            return y * (1 - share * _MOST_CROWDING), y * share * _MOST_CROWDING / x
        slope = min(_slope(self._points, per_token, self.shown, self._most, share), _STEEPEST * y / x)
        return y - slope * x, slope

    def _per_token(self, line: tuple[float, float], firsts: Sequence[EngineStep]) -> float | None:
        """Return what a token of a prompt adds, by the time to the first token; None where that is not exported."""
        mean, measured = self._load.prompt.mean, self._measured
        iteration = line[0] + line[1] * measured.running
        parts = max(mean / max(self._limits.token_budget - measured.running, 1.0), 1.0) if self._limits.chunked else 1.0
        if firsts:
            whole = mean_ratio([(step.first_seconds, step.firsts) for step in firsts])
            # It comes in the middle of an iteration, where one runs.
            waited = iteration / 2 * min(measured.running, 1.0)
        else:
            whole, waited = measured.first_token, measured.queue or 0.0
            if measured.queue is None:
                return None
        return None if whole is None else max(whole - waited - parts * iteration, 0.0) / mean

    def assumptions(self) -> list[str]:
        """Return what the cost rests on."""
        found = []
        cost = self.cost(self._points)
        show = Unit.SECONDS.show
        found.append(
            f"estimated on a simulated loop: an iteration takes {show(cost.base)}, "
            f"{show(cost.per_held * self.held)} for each running request of {self.held:.0f} tokens and "
            f"{show(cost.per_token)} for each token of a prompt"
        )
        if not self.seen:
            found.append(
                "the requests that run hardly differed in the window: what more of them add to an iteration is between "
                f"nothing and {_MOST_CROWDING:.0%} of it"
            )
        if self._measured.first_token is None:
            found.append("no time to the first token is exported: what a prompt adds is a fit to the iterations")
        return found


_ROUNDS = 4
# An iteration takes some time whoever is in it.
_STEEPEST = 0.95


def _without_prompts(one: IterationPoint, per_token: float) -> float:
    return max(one.seconds - per_token * one.tokens, one.seconds / 10)


def _middle(points: Sequence[IterationPoint], per_token: float) -> tuple[float, float]:
    """Return the mean requests that decode, and the mean seconds of an iteration without what prompts add."""
    weight = sum(one.weight for one in points)
    x = sum(one.decoding * one.weight for one in points) / weight
    return x, sum(_without_prompts(one, per_token) * one.weight for one in points) / weight


def _slope(points: Sequence[IterationPoint], per_token: float, shown: float, most: float, share: float) -> float:
    """Return what a request that decodes adds to an iteration; a `share` of what is probable lies below.

    The error of the least squares is that of a line through so few points (Student's t). It is larger where a part
    `shown` of what the requests differ by is of the stretch itself, by what dividing the slope by it would make it
    (Carroll et al., Measurement error in nonlinear models, 2006, chapter 3). Of slopes, the mean is expected that
    lengthens iterations by `_MOST_CROWDING` up to `most` requests, and nothing else (exponential: Jaynes, Information
    theory and statistical mechanics, 1957).
    """
    x, y = _middle(points, per_token)
    left = [(one.decoding - x, _without_prompts(one, per_token) - y, one.weight) for one in points]
    square = sum(away**2 * each for away, _, each in left)
    flat = sum(away * off * each for away, off, each in left) / square
    free = max(len(points) - _LINE, 1)
    rest = sum((off - flat * away) ** 2 * each for away, off, each in left)
    # Times that lie on a line to the last digit were rounded, or made: the grid tells no more.
    steepest = _STEEPEST * y / x
    error = max(sqrt(rest / square / free) / shown, steepest / _GRID)
    used = min(x / most, 1.0)
    usual = y / x * _MOST_CROWDING * used / (1 - _MOST_CROWDING * (1 - used))
    grid = [steepest * (number + 0.5) / _GRID for number in range(_GRID)]
    below = list(accumulate(_student((one - flat) / error, free) * exp(-one / usual) for one in grid))
    return grid[min(bisect_left(below, share * below[-1]), _GRID - 1)]


def _student(value: float, free: int) -> float:
    """Return the density of Student's t, but for its scale."""
    return float((1 + value**2 / free) ** (-(free + 1) / 2))


# What a line takes of the points' freedom, and slopes that are told apart.
_LINE, _GRID = 2, 400


def _spread(points: Sequence[IterationPoint]) -> float:
    """Return by which part of their mean the requests that decode differ, from the tenth part to nine tenths."""
    ordered = sorted(one.decoding for one in points)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    return (high - low) / fmean(ordered)


def _noted_at_end(history: EngineHistory) -> bool:
    """Return whether first tokens are counted when their requests end, so that they came in another stretch."""
    return all(step.firsts == step.ended for step in history.steps if step.firsts is not None)


def _unqueued(history: EngineHistory, slots: float) -> Sequence[EngineStep]:
    """Return the stretches at whose ends nobody waits and slots are free; empty with too few first tokens in them."""
    found = [
        step
        for step in history.steps
        if step.firsts and all(one is not None and _is_free(one, slots) for one in (step.before, step.after))
    ]
    return found if sum(step.firsts or 0.0 for step in found) >= _FEWEST_FIRSTS else ()


def _is_free(sample: EngineSample, slots: float) -> bool:
    return sample.waiting == 0 and (sample.scheduled or 0.0) <= _FREE * slots


# With a quarter of the slots free at both ends, they are seldom all taken for long in between.
_FREE = 0.75


def _slope_of_tokens(points: Sequence[IterationPoint], line: tuple[float, float]) -> float:
    """Return by how much iterations lengthen with a token of a prompt: the least squares of what the line leaves."""
    left = [(one.tokens, one.seconds - line[0] - line[1] * one.decoding, one.weight) for one in points]
    weight = sum(each for _, _, each in left)
    x = sum(tokens * each for tokens, _, each in left) / weight
    square = sum((tokens - x) ** 2 * each for tokens, _, each in left)
    product = sum((tokens - x) * seconds * each for tokens, seconds, each in left)
    return max(product / square, 0.0) if square > 0 else 0.0


def refuse_more(fitted: FittedLoop, low: float, high: float) -> None:
    """Refuse a prediction that depends too much on what more requests cost, where that was not seen.

    Raises:
        Unpredictable: with the measurement that would tell.

    """
    if fitted.crowding_seen or high <= _MOST_UNCERTAIN * low:
        return
    show = Unit.SECONDS.show
    raise Unpredictable(
        f"about as many requests ran at every read ({fitted.measured.running:.3g}), so what more of them cost cannot "
        f"be told: a token would take {show(low)} to {show(high)}",
        where=fitted.on.model or "",
        hint=_LOAD_VARIES,
    )
