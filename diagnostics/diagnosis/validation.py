"""Whether the model of a window, as it was, holds what was measured in it: else it judges nothing, and raises a doubt.

A stage that is offered all that it can do has no steady state: what was waited for it is no contradiction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import inf
from time import thread_time
from typing import TypeVar, cast

import msgspec

from diagnostics.checks.check import Quiet
from diagnostics.diagnosis.explanation import Explanation, with_findings, with_results
from diagnostics.diagnosis.finding import (
    Effect,
    EndToEnd,
    Finding,
    Unpredicted,
    by_saving,
    claimed,
    corrected,
    id_of,
    ordered,
)
from diagnostics.diagnosis.predicting import Intervention, Predictor, Simulations, effect, why_not
from diagnostics.diagnosis.run import Result, fired
from diagnostics.evidence.ledger import LedgerLine, least_worthwhile
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import unlike
from diagnostics.signals.signal import Reading
from diagnostics.units import Unit

# A cause is doubted where the model does not hold more than half of what it is said to cost: most of it then comes from
# something that the model, and with it the remedy, does not know.
DOUBTED_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCheck:
    """What the model of the window says of it.

    Attributes:
        beyond: seconds of the measured mean that it does not hold; 0 where it holds all, or where none can be said.
        stated: that it does not hold them, in words; empty where it does, or where a queue may have grown.
        unlike: that its mean is not what was measured, in words, whatever the reason; empty where it is.
        misses: whether that is more than half of what was measured.

    """

    beyond: float = 0.0
    stated: str = ""
    unlike: str = ""
    misses: bool = False

    def contradicts(self, seconds_per_request: float) -> bool:
        """Return whether it does not hold most of what a cause is said to take of each request."""
        return bool(self.stated) and self.beyond > DOUBTED_PART * seconds_per_request > 0


def account(requested: Intervention, simulations: Simulations) -> ForecastCheck:
    """Return what the closed forms say of the window, or the simulation where that is nearer.

    Raises:
        Unpredictable: the simulation takes more events than a run may have.

    """
    measured = requested.fitted.measured.mean
    quick = estimate(requested.fitted)
    if measured is None or quick.accounts_for(measured):
        return ForecastCheck()
    nearest, grows = quick, _may_grow(quick)
    if requested.affordable:
        simulated = simulations.of(requested.fitted)
        if simulated.accounts_for(measured):
            return ForecastCheck()
        nearest = min(quick, simulated, key=lambda one: one.beyond(measured))
        grows = grows or _may_grow(simulated)
    beyond, missed = nearest.beyond(measured), " ".join(unlike(measured, nearest))
    if grows:
        return ForecastCheck(unlike=missed, misses=nearest.misses(measured))
    if beyond < least_worthwhile(measured):
        return ForecastCheck()
    return ForecastCheck(beyond=beyond, stated=missed, unlike=missed, misses=nearest.misses(measured))


def _may_grow(found: Performance) -> bool:
    return found.mean is None or found.mean.high is None or not found.stable


# What holds of a window holds of the next ones like it: a running service asks again after so many seconds.
KEPT_SECONDS = 300.0
# Processor time that all forecasts of one explanation may take together: five times what those of five stages do. One
# that has begun is finished, within the events that a run may have.
VALIDATION_SECONDS = 10.0
# A cause is as likely wrong as right where the model that its remedy rests on is not that of the window.
DOUBTED_CONFIDENCE = 0.6
# What was forecast of a window is forecast again from one this many times as long.
_MORE = 2.0
T = TypeVar("T")


@dataclass(slots=True)
class ForecastCache:
    """What was answered for earlier windows, for as long as it is thought to hold."""

    seconds: float = KEPT_SECONDS
    _kept: dict[Hashable, tuple[float, float, float, object]] = field(default_factory=dict)

    def of(self, key: Hashable, now: float, make: Callable[[], T], mean_seconds: float = 0.0, length: float = 0.0) -> T:
        """Return the answer for a key at Unix second `now`, rebuilt where there is none that still holds.

        It holds for some time, while requests take about as long (`mean_seconds`) as when it was made: not by as much
        more or less as is worth a change. A window of twice the `length` in seconds, as one that fills, shows more.
        """
        self._kept = {one: kept for one, kept in self._kept.items() if 0 <= now - kept[0] <= self.seconds}
        if not self.holds(key, now, mean_seconds, length):
            self._kept[key] = now, mean_seconds, length, make()
        return cast("T", self._kept[key][3])

    def holds(self, key: Hashable, now: float, mean_seconds: float = 0.0, length: float = 0.0) -> bool:
        """Say whether an answer for a key still holds at Unix second `now`."""
        kept = self._kept.get(key)
        if kept is None or not 0 <= now - kept[0] <= self.seconds or length > _MORE * kept[2] > 0:
            return False
        return abs(mean_seconds - kept[1]) <= least_worthwhile(kept[1])


class _SpentError(Exception):
    """The time for validation is over."""


@dataclass(slots=True)
class CpuBudget:
    """The time that forecasts may take, from the first question on.

    Attributes:
        seconds: of processor time.
        wall_seconds: of a steady clock: on a machine that is overloaded these pass long before the others.
        clock, steady: the two clocks, in seconds; the steady one stands still unless it is given.
        used: seconds of processor time that answers took.

    """

    seconds: float = VALIDATION_SECONDS
    wall_seconds: float = inf
    clock: Callable[[], float] = thread_time
    steady: Callable[[], float] = lambda: 0.0
    used: float = 0.0
    _end: float = inf
    _until: float = inf

    @property
    def spent(self) -> bool:
        """Whether either is over; the first question begins both, so that one at least is answered."""
        now, steady = self.clock(), self.steady()
        self._end, self._until = min(self._end, now + self.seconds), min(self._until, steady + self.wall_seconds)
        return now >= self._end or steady >= self._until

    @property
    def limit(self) -> str:
        """What was reached, in words."""
        show = Unit.SECONDS.show
        return f"{show(self.wall_seconds)}" if self.steady() >= self._until else f"{show(self.seconds)} of CPU time"


def validated(
    explanation: Explanation,
    *,
    simulate: bool = True,
    memory: ForecastCache | None = None,
    budget: CpuBudget | None = None,
    simulations: Simulations | None = None,
) -> Explanation:
    """Return the explanation with what each suggestion would do, without causes whose removal would not help.

    Where the simulation accounts for the window as it is, its saving is the saving. A finding is dropped, its check
    quiet with the reason, where what its change saves is too little to be worth one (15 % and 5 ms), likely or at most,
    and closed forms do not disagree. Of several changes to one entry, none of which helps alone, those
    stay that help together. What a finding takes of each request is no more than its change is simulated to save.
    Rivals for the same seconds change places where both agree that the one that the checks put second saves more.

    Where the model does not hold most of what a finding is said to cost, its confidence is at most 0.6 (`doubt`).

    Args:
        explanation: of a window.
        simulate: simulate each suggestion that can be. Where False, only what a memory still holds is as simulated, and
            closed forms give the rest.
        memory: answers of earlier windows of the same deployment; None to answer again.
        budget: the time that it may take; what is not proven by then stays as the checks say, and is marked so.
        simulations: forecasts of this window that were made before; None for none.

    """
    if explanation.proven or all(finding.suggestion is None for finding in explanation.findings):
        return explanation
    validator = _Validator(
        explanation, memory or ForecastCache(), budget or CpuBudget(), simulations or Simulations(), simulate=simulate
    )
    explanation = validator.judged()
    found = validator.reported(explanation.findings)
    return replace(with_findings(explanation, found), proven=True)


class _Validator:
    """Asks for forecasts of one explanation's findings."""

    def __init__(
        self,
        explanation: Explanation,
        memory: ForecastCache,
        budget: CpuBudget,
        simulations: Simulations,
        *,
        simulate: bool,
    ) -> None:
        self._before, self._memory, self._budget, self._may_simulate = explanation, memory, budget, simulate
        self._predictor = Predictor(explanation.evidence, explanation.anatomy)
        self._simulations = simulations
        self._results: Mapping[str, Result] = {id_of(result): result for result in fired(explanation.results)}
        self._together: dict[str, Intervention] = {}

    @property
    def _by(self) -> Mapping[str, Ask]:
        return {"closed forms": _by_closed_forms, "simulation": partial(_by_simulation, self._simulations)}

    def judged(self) -> Explanation:
        """Return the explanation without what is refuted, and rivals in the order of what they save."""
        refuted = {
            one.id: line
            for one in self._before.findings
            if _may_be_refuted(one) and (line := self._answer("helps", one, partial(_too_little, self._by)))
        }
        for several in self._of_one_entry():
            if any(one.id in refuted for one in several):
                self._keep_together(several, refuted)
        ahead = tuple(self._ahead(self._before.findings))
        if not refuted and not ahead:
            return self._before
        results = [self._quieted(result, refuted) for result in self._before.results]
        return with_results(self._before, results, ahead)

    def reported(self, found: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings, in order, with what their suggestions would do."""
        return ordered([self._reported(one) for one in found])

    def _reported(self, finding: Finding) -> Finding:
        known = self._answer("account", finding, partial(account, simulations=self._simulations)) or ForecastCheck()
        reported = self._effect(finding, known.unlike)
        if isinstance(reported, EndToEnd):
            reported = replace(reported, misses=known.misses)
        made = _with(finding, reported)
        if known.contradicts(finding.impact.seconds_per_request):
            made = replace(made, confidence=min(made.confidence, DOUBTED_CONFIDENCE), doubt=f"{known.stated}.")
        if isinstance(reported, EndToEnd) and reported.simulated and not known.stated:
            made = corrected(made, max(reported.now_mean - reported.mean.value, 0.0))
        return made

    def _effect(self, finding: Finding, doubt: str) -> Effect | None:
        simulate = self._may_simulate or self._holds("effect True", finding)
        simulations = self._simulations if simulate else None

        def make() -> Effect | None:
            requested = self._together.get(finding.id) or self._requested(finding)
            try:
                if simulate and (found := self._predictor.by_iterations(finding, doubt)):
                    return found
                return (
                    effect(requested, finding, simulations, doubt) if isinstance(requested, Intervention) else requested
                )
            except Unpredictable as error:
                return Unpredicted(because=why_not(error))

        try:
            return self._kept(f"effect {simulate}", finding, make)
        except _SpentError:
            limit = self._budget.limit
            return Unpredicted(because=f"forecasts for one verdict stop after {limit}; diag whatif predicts it")

    def _answer(self, what: str, finding: Finding, ask: Callable[[Intervention], T | None]) -> T | None:
        def make() -> T | None:
            requested = self._requested(finding)
            try:
                return ask(requested) if isinstance(requested, Intervention) else None
            except Unpredictable:
                return None

        try:
            return self._kept(what, finding, make)
        except _SpentError:
            return None

    def _kept(self, what: str, finding: Finding, make: Callable[[], T]) -> T:
        make = partial(self._within, make)
        window = self._before.window
        length = window.end - window.start
        return self._memory.of(_key(what, finding), window.end, make, finding.impact.mean_seconds, length)

    def _holds(self, what: str, finding: Finding) -> bool:
        window = self._before.window
        length = window.end - window.start
        return self._memory.holds(_key(what, finding), window.end, finding.impact.mean_seconds, length)

    def _within(self, make: Callable[[], T]) -> T:
        """Return an answer made now; what is known already costs nothing, whatever the budget."""
        if self._budget.spent:
            raise _SpentError
        begun = self._budget.clock()
        try:
            return make()
        finally:
            self._budget.used += self._budget.clock() - begun

    def _requested(self, finding: Finding) -> Intervention | Unpredicted | None:
        result = self._results.get(finding.id)
        return self._predictor.requested(finding, result) if result is not None else None

    def _of_one_entry(self) -> Iterator[Sequence[Finding]]:
        """Yield the findings of each ensemble whose settings might be changed together, two at least."""
        entries: dict[tuple[str, str | None], list[Finding]] = {}
        for one in self._before.findings:
            if one.suggestion and one.suggestion.change and _may_be_refuted(one):
                entries.setdefault((one.subject.server, one.subject.ensemble), []).append(one)
        yield from (several for (_, entry), several in entries.items() if entry is not None and len(several) > 1)

    def _keep_together(self, found: Sequence[Finding], refuted: dict[str, LedgerLine]) -> None:
        """Refute none of several findings whose changes help together: branches of an ensemble hide each other.

        Together they save what is worth a change beyond what those do that are not refuted.
        """
        pairs = [(one, self._results[one.id]) for one in found]
        every = self._predictor.together(pairs)
        others = self._predictor.together([(one, result) for one, result in pairs if one.id not in refuted])
        if every is None:
            return
        key = "+".join(one.id for one in found)
        if self._answer(f"together {key}", found[0], lambda _: _is_worth(self._by, every, others)):
            for one in found:
                refuted.pop(one.id, None)
                self._together[one.id] = every

    def _quieted(self, result: Result, refuted: Mapping[str, LedgerLine]) -> Result:
        line = refuted.get(id_of(result)) if result.fires else None
        if line is None:
            return result
        ledger = replace(result.ledger, lines=[*result.ledger.lines, line])
        return msgspec.structs.replace(
            result, outcome=Quiet(because="requests would take about as long with its change"), noted=ledger
        )

    def _ahead(self, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
        """Yield pairs of rivals, the one first that forecasts put first and the checks second."""
        findings = {finding.id: finding for finding in found}
        for first, second in combinations(by_saving(self._before.results), 2):
            one, other = findings.get(id_of(first)), findings.get(id_of(second))
            if one and other and claimed(first) & claimed(second) and self._saves_more(other, one):
                yield other.id, one.id

    def _saves_more(self, one: Finding, other: Finding) -> bool:
        """Whether one saves more at every end of what is not known, by as much as is worth a change."""
        needed = self._answer("needed", one, _needed) or inf
        for name, ask in self._by.items():
            mine, others = (self._answer(name, finding, ask) for finding in (one, other))
            if mine is None or others is None or mine[1] - others[1] < needed:
                return False
            if any(a < b for a, b in zip(mine, others, strict=True)):
                return False
        return True


def _with(finding: Finding, reported: Effect | None) -> Finding:
    """Return the finding with its effect; what is shown of its stage is from the same forecast."""
    suggestion = finding.suggestion
    if suggestion is None or reported is None:
        return finding
    if isinstance(reported, EndToEnd):
        suggestion = replace(suggestion, prediction=reported.stage)
    elif reported.overrules:
        suggestion = replace(suggestion, prediction=None)
    return replace(finding, suggestion=suggestion, effect=reported)


def _key(what: str, finding: Finding) -> Hashable:
    return what, finding.id, repr(finding.suggestion and finding.suggestion.change)


Saving = tuple[float, float, float]
"""Seconds per request that an intervention saves at the favourable end of what is not known, likely, and at the other.

Both sides of each difference are taken at the same end: what makes a queue short makes it short with the change, too.
Infinite where only the change keeps up.
"""


def _by_closed_forms(requested: Intervention) -> Saving | None:
    return _saving(requested, estimate(requested.fitted), estimate(requested.after))


Ask = Callable[[Intervention], Saving | None]


def _by_simulation(simulations: Simulations, requested: Intervention) -> Saving | None:
    """Return the saving as simulated; None where the simulation does not account for the window as it is.

    Where it does, no end saves more than from what was measured to the shortest that is forecast.
    """
    if not requested.affordable:
        return None
    base, measured = simulations.of(requested.fitted), requested.fitted.measured.mean
    if unlike(measured, base):
        return None
    after = simulations.of(requested.after)
    saving = _saving(requested, base, after)
    if saving is None or after.mean is None or measured is None:
        return saving
    most = measured - after.mean.low
    return min(saving[0], most), min(saving[1], most), min(saving[2], most)


def _saving(requested: Intervention, base: Performance, after: Performance) -> Saving | None:
    """Return the saving; None where one side has no steady state, or only the change may have none.

    What is likely is the larger of two differences: from what is forecast of the window, and from what was measured.
    """
    now, then = base.mean, after.mean
    if now is None or then is None or not (base.stable and after.stable):
        return None
    likely = max(now.value, requested.fitted.measured.mean or 0.0) - then.value
    if now.high is not None and then.high is not None:
        return now.low - then.low, likely, now.high - then.high
    if then.high is None and now.high is not None:
        return None
    return now.low - then.low, likely, likely if then.high is None else inf


def _needed(requested: Intervention) -> float:
    """Return the seconds that are worth a change."""
    return least_worthwhile(requested.fitted.measured.mean or inf)


def _may_be_refuted(finding: Finding) -> bool:
    """Say whether a forecast can speak against a finding.

    What a relief saves is what the finding claims: it cannot speak against it. Failures are more than seconds.
    """
    suggestion, harm = finding.suggestion, finding.impact
    return (
        suggestion is not None
        and not suggestion.relieves
        and harm.seconds_per_request > 0
        and harm.share_of_requests_failed <= 0
    )


def _too_little(by: Mapping[str, Ask], requested: Intervention) -> LedgerLine | None:
    """Return what a change saves, too little to be worth one; None where it is enough, or that cannot be said."""
    needed = _needed(requested)
    quick = by["closed forms"](requested)
    if needed == inf or (quick is not None and min(quick) >= needed):
        return None
    saving = by["simulation"](requested)
    if saving is None or (quick is not None and quick[1] >= needed):
        return None
    most, likely = max(*saving, 0.0), max(saving[1], 0.0)
    if most < needed:
        return _line("simulated_saving_at_most", most, needed)
    return _line("simulated_saving", likely, needed) if likely < needed and quick is not None else None


def _line(signal: str, seconds: float, needed: float) -> LedgerLine:
    reading = Reading.of(seconds, Unit.SECONDS, "simulation", estimated=True)
    return LedgerLine(signal=signal, reading=reading, limit=needed, sign=">=", met=False)


def _is_worth(by: Mapping[str, Ask], requested: Intervention, others: Intervention | None) -> bool:
    """Return whether several changes likely save what is worth them, beyond what some of them do alone."""
    saving, without = by["simulation"](requested), by["simulation"](others) if others else None
    if saving is None:
        return False
    return saving[1] - max(without[1] if without else 0.0, 0.0) >= _needed(requested)
