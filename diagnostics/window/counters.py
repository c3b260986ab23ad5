"""Cumulative counters of one model version as steps between reads, and which of their resets are real."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median

from diagnostics.window.points import (
    EPOCH_COUNTERS,
    Batches,
    Counter,
    CounterPoint,
    CounterStep,
    Delta,
    Increase,
    Opened,
    fell,
    increase,
    increase_between,
    stands_out,
    sum_steps,
    zero_at,
)

# Pages of one round are read within less.
SAME_ROUND_SECONDS = 0.05
# What happened while nobody tried to read for so many rounds is not seen to have happened at once.
MOST_MISSED_ROUNDS = 3.0
# Steady traffic varies by less than this factor from read to read (a hundred requests by a fifth); what waited for a
# load is completed at once, but it arrived since the last read that completed anything.
_BURST = 3.0
# A rate and an interval need this many other steps to be known.
_FEWEST_OTHERS = 3
# Of few requests any number may come at once.
FEW_REQUESTS = 30.0


def longest_gap(tries: Sequence[float], since: float, until: float) -> float:
    """Return the longest time between two reads at which none was tried; what happened may have taken all of it.

    Args:
        tries: steady times of all tries so far, ascending.
        since: that of the first of the two reads.
        until: that of the second.

    """
    between = tries[bisect_left(tries, since) : bisect_left(tries, until)]
    return max(later - sooner for sooner, later in pairwise([since, *between, until]))


def doubtful_openings(steps: Sequence[CounterStep]) -> list[CounterStep]:
    """Return the first steps of epochs that were not counted from zero; none with too few other steps to decide."""
    if not any(step.opens for step in steps):
        return []
    others = [step for step in steps if not step.opens]
    if len(others) < _FEWEST_OTHERS:
        return []
    interval = median(step.unwatched for step in others)
    rate = max(_requests(step) / step.seconds for step in others)
    return [
        step
        for i, step in enumerate(steps)
        if step.opens
        and (
            # One read alone was above: as likely it was filed wrongly as the server was restarted just then.
            (i == 0 and step.opened is Opened.RESET)
            or step.unwatched > MOST_MISSED_ROUNDS * interval
            or _requests(step) > _most(rate, steps[:i], step)
        )
    ]


def _most(rate: float, earlier: Sequence[CounterStep], step: CounterStep) -> float:
    """Return the most requests that can have been completed since the last step that completed any."""
    last = next((one.end for one in reversed(earlier) if _requests(one) > 0), step.start)
    return max(_BURST * rate * max(step.end - last, step.seconds), FEW_REQUESTS)


def _requests(step: CounterStep) -> float:
    return step.values.get(Counter.SUCCESS, 0.0)


# A server whose counters jump back more often, and at more than one of so many reads, cannot be separated from several
# servers behind one address: two that are read in turn jump at every second read, in random order at every fourth.
MOST_JUMPS = 2
READS_PER_JUMP = 8
# Neighbouring reads of steady traffic differ by less than this factor in what they count.
NEIGHBOURS = 3.0
# What waited for a load is completed at once, some seconds' worth; other servers have served for hours.
LEAP = 20.0
_END = attrgetter("end")


class CounterTable:
    """All reads of one model version from one source, in time order."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._steps: list[CounterStep] = []
        self._trusted: list[CounterStep] | None = None
        self._dropped_at: list[float] = []
        # A dozen signals ask for the same span; it is summed once, until another read comes.
        self._deltas: dict[tuple[float, float], Delta | None] = {}
        self._inside: dict[tuple[float, float], list[CounterStep]] = {}
        self.reads = 0
        # Wall and steady time of each read in which the counters stood below an earlier one.
        self._fallen: list[tuple[float, float]] = []
        self._bounced: set[float] = set()  # Unix seconds of those after which the next read stood above them all again
        self._first: CounterPoint | None = None
        self._last: CounterPoint | None = None
        self._earlier: CounterPoint | None = None
        self._above: CounterPoint | None = None  # the read before the last one, where the counters fell between them
        self._fall: tuple[CounterPoint, CounterPoint] | None = None  # the newest reads between which they fell
        self._opened = self._opened_above = Opened.BEFORE_WINDOW
        self._fresh = True
        self._began_anew = False
        self._tried: float | None = None
        self._mixed = False
        self._denied: tuple[CounterStep, ...] = ()

    @property
    def first(self) -> CounterPoint | None:
        """The oldest read; None before it."""
        return self._first

    @property
    def last(self) -> CounterPoint | None:
        """The newest read; None before the first."""
        return self._last

    @property
    def fell_at(self) -> Sequence[float]:
        """Steady time of each read in which the counters stood below an earlier one."""
        return [mono for _, mono in self._fallen] if self._fallen else ()

    @property
    def steps(self) -> Sequence[CounterStep]:
        """All plausible steps in time order."""
        if self._trusted is None:
            left_out = self._left_out()
            self._trusted = [step for step in self._steps if step not in left_out] if left_out else self._steps
        return [] if self.unsteady or self._seen_once else self._trusted

    @property
    def resets(self) -> Sequence[CounterStep]:
        """The plausible steps that begin an epoch inside the window, in time order."""
        return [step for step in self.steps if step.opens] if self._began_anew else ()

    @property
    def _seen_once(self) -> bool:
        """Whether one read alone listed it, and not the first: a damaged name looks like that, a load lasts."""
        return self.reads == 1 and self._opened is Opened.APPEARED

    @property
    def dropped_at(self) -> Sequence[float]:
        """Unix seconds of the reads whose steps were left out as implausible."""
        return self._dropped_at

    @property
    def doubted_at(self) -> Sequence[float]:
        """Unix seconds of all reads whose steps are left out: up to each, something unknown was counted."""
        if self.steps is self._steps:
            return self._dropped_at
        trusted = {step.end for step in self.steps}
        return [*self._dropped_at, *(step.end for step in self._steps if step.end not in trusted)]

    @property
    def unsteady(self) -> bool:
        """Whether the counters jump back so often that no difference of two of them means anything.

        A version that is loaded again and again begins at zero each time, which another server's counters do not. All
        rows together may show it where one alone has too few reads: see `diagnostics.window.restarts`.
        """
        falls = len(self.fell_at)
        return self._mixed or (
            falls > MOST_JUMPS and falls - len(self.loaded_at) + self._leaps() > most_jumps(self.reads)
        )

    @property
    def loaded_at(self) -> Sequence[float]:
        """Those of `fell_at` that show a load: the counters fell to what can have been counted since, from zero."""
        rate = self._usual_rate()
        begun = {step.end for step in self._steps if step.opened is Opened.RESET and step.opens and _few(step, rate)}
        return [mono for at, mono in self._fallen if at in begun and at not in self._bounced]

    def _usual_rate(self) -> float:
        rates = [_requests(step) / step.seconds for step in self._steps if not step.opens]
        return median(rates) if rates else 0.0

    def _leaps(self) -> int:
        """Return how often the counters rose by what no load, but another server's counters, explain."""
        rate = self._usual_rate()
        return sum(
            not step.opens and _requests(step) > LEAP * rate * step.seconds + FEW_REQUESTS for step in self._steps
        )

    @property
    def rose(self) -> bool:
        """Whether any read counted requests or executions more than the read before it."""
        counted = (
            step.values.get(counter, 0.0) for step in self._steps if not step.opens for counter in EPOCH_COUNTERS
        )
        return any(value > 0 for value in counted)

    @property
    def counts(self) -> bool:
        """Whether it counts anything: what stands at zero cannot jump back."""
        return self._last is not None and self._last.values.get(Counter.SUCCESS, 0.0) > 0

    @property
    def seconds(self) -> float:
        """Steady time from the first read to the last; 0 before the second."""
        return self._last.mono - self._first.mono if self._first and self._last else 0.0

    @property
    def interval(self) -> float:
        """Mean seconds between two reads; 0 before the second."""
        return self.seconds / (self.reads - 1) if self.reads > 1 else 0.0

    @property
    def rate(self) -> float:
        """Requests a second as its own plausible steps count them, trusted or not; 0 without any."""
        if not self.fell_at and self._first and self._last and self.seconds:
            counted = self._last.values.get(Counter.SUCCESS, 0.0) - self._first.values.get(Counter.SUCCESS, 0.0)
            return counted / self.seconds
        seconds = sum(step.seconds for step in self._steps)
        return increase(self._steps, Counter.SUCCESS) / seconds if seconds else 0.0

    def add(self, point: CounterPoint, previous_read: tuple[float, float] | None, tried: float | None = None) -> None:
        """Append a read; one at the same steady time as the last says nothing new.

        Args:
            point: the values read.
            previous_read: wall and steady time of the server's previous successful read of this source, which did
                not list this version if there is no earlier point; None at the first read of all.
            tried: how far before this read, in steady time, nobody tried one for longest since the previous one,
                failed ones included; None where only successful ones are known.

        """
        before, earlier = self._last, self._earlier
        above, self._above = self._above, None
        if before is not None and point.mono <= before.mono:
            return
        if self._trusted is not None:  # somebody has asked meanwhile
            self._trusted = None
            self._deltas.clear()
            self._inside.clear()
        self._tried = tried
        self._last, self._earlier = point, before
        self._first, self.reads = self._first or point, self.reads + 1
        if before is None:
            if previous_read is not None:
                self._open(Opened.APPEARED)
                self._step_from_zero(*previous_read, point)
            return
        if above is not None and point.values.get(Counter.SUCCESS, 0.0) > above.values.get(Counter.SUCCESS, 0.0):
            self._bounced.add(before.at)
        increase = point.since(before)
        if earlier is not None and increase.fell and stands_out(earlier, before, point):
            self._take_out(before)
            self._fallen.append((point.at, point.mono))
            self._earlier = earlier
            self._step(earlier, point)
        elif above is not None and self._was_a_dip(above, point):
            self._fill_dip(above, before, point)
        elif increase.fell:
            self._begin_anew(before, point)
        else:
            self._add_step(before, point, increase)

    def _begin_anew(self, before: CounterPoint, point: CounterPoint) -> None:
        """Begin an epoch at a read in which the counters stand below the one before."""
        self._above, self._opened_above = before, self._opened
        self._fall = (before, point)
        self._open(Opened.RESET)
        self._fallen.append((point.at, point.mono))
        self._earlier = None
        self._step_from_zero(before.at, before.mono, point)

    def inside(self, start: float, end: float) -> Sequence[CounterStep]:
        """Return the steps that begin and end inside [start, end] (wall seconds, a microsecond of slack), by end."""
        if (start, end) not in self._inside:
            first, last = start - 1e-6, end + 1e-6
            found = [step for step in self.steps if first <= step.start <= last and first <= step.end <= last]
            self._inside[start, end] = sorted(found, key=_END)
        return self._inside[start, end]

    def delta(self, start: float, end: float) -> Delta | None:
        """Return the sum over the steps inside [start, end] (wall seconds); None when there are none."""
        if (start, end) not in self._deltas:
            inside = [step for step in self.steps if step.start >= start - 1e-6 and step.end <= end + 1e-6]
            left_out = sum(1 for at in self._dropped_at if start <= at <= end)
            self._deltas[start, end] = sum_steps(inside, left_out) if inside else None
        return self._deltas[start, end]

    def mark_unreliable(self, *, mixed: bool, denied: tuple[CounterStep, ...] = ()) -> None:
        """Take over whether all rows show that several servers answered, and which openings another source denies."""
        if mixed != self._mixed or denied != self._denied:
            self._mixed, self._denied, self._trusted = mixed, denied, None
            self._deltas.clear()
            self._inside.clear()

    def _left_out(self) -> list[CounterStep]:
        """Return the first steps of epochs for which no zero was there to start from."""
        if not self._began_anew:
            return []
        if self.clock_set_back:
            return [step for step in self._steps if step.opens and step.opened is Opened.RESET]
        return [*self._denied, *doubtful_openings(self._steps)]

    @property
    def clock_set_back(self) -> bool:
        """Whether the counters fell once, where the clock was set: what was read before is filed after what came later.

        Then one run of reads is the other's neighbour: it goes on where that began, or fits into one step of it.
        """
        openings = [step for step in self._steps if step.opens and step.opened is Opened.RESET]
        if len(openings) != 1 or self._fall is None or self._first is None or self._last is None:
            return False
        if self._fall[1].at != openings[0].end:  # a dip that was filled since
            return False
        place = self._steps.index(openings[0])
        sooner = _Run(self._first, self._fall[0], self._steps[:place])
        later = _Run(self._fall[1], self._last, self._steps[place + 1 :])
        return later.ends_before(sooner) or sooner.fits_into(later) or later.fits_into(sooner)

    def _was_a_dip(self, above: CounterPoint, point: CounterPoint) -> bool:
        """Return whether the counters are back where they fell from, sooner than work could bring them there."""
        most = max((step.values.get(Counter.SUCCESS, 0.0) for step in self._steps if not step.opens), default=0.0)
        return not fell(above, point) and above.values.get(Counter.SUCCESS, 0.0) > NEIGHBOURS * most > 0

    def _fill_dip(self, above: CounterPoint, low: CounterPoint, point: CounterPoint) -> None:
        """Forget the low read between two that belong together."""
        self._take_out(low)
        self._opened, self._fresh, self._earlier = self._opened_above, not self._steps, above
        self._step(above, point)

    def _take_out(self, point: CounterPoint) -> None:
        """Forget the step that ended at this read; the epoch goes on as if the read had not been."""
        if self._steps and self._steps[-1].end == point.at:
            self._fresh = self._steps.pop().first

    def _open(self, how: Opened) -> None:
        self._opened, self._fresh, self._began_anew = how, True, True

    def _step_from_zero(self, at: float, mono: float, after: CounterPoint) -> None:
        # A zero that was made up stands at the time of a real read, and must not be taken for it.
        zero = zero_at(at, mono, after)
        self._add_step(zero, after, increase_between(zero, after))

    def _step(self, before: CounterPoint, after: CounterPoint) -> None:
        self._add_step(before, after, after.since(before))

    def _add_step(self, before: CounterPoint, after: CounterPoint, increase: Increase) -> None:
        if not increase.possible:
            self._dropped_at.append(after.at)
            return
        tried = before.mono if self._tried is None or self._tried < before.mono else self._tried
        self._steps.append(
            CounterStep(
                start=before.at,
                end=after.at,
                seconds=after.mono - before.mono,
                unwatched=after.mono - tried,
                values=increase.values,
                batches=increase.batches,
                opened=self._opened,
                first=self._fresh,
                from_zero=increase.from_zero,
            )
        )
        self._fresh = False


def _few(step: CounterStep, rate: float) -> bool:
    """Return whether so many requests can have been completed in the step that begins an epoch."""
    return _requests(step) <= NEIGHBOURS * rate * step.seconds + FEW_REQUESTS


def most_jumps(reads: int) -> float:
    """Return how often the counters of one server may jump back in so many reads."""
    return max(MOST_JUMPS, reads / READS_PER_JUMP)


@dataclass(frozen=True, slots=True)
class _Run:
    """Reads of counters that only rose: the first, the last, and the steps between them."""

    first: CounterPoint
    last: CounterPoint
    steps: Sequence[CounterStep]

    def ends_before(self, other: _Run) -> bool:
        """Return whether it ends one usual step below the other's first read, in every counter."""
        usual = [*self.steps[-1:], *other.steps[:1]]
        return len(usual) > 1 and _neighbours(self.last.values, other.first.values, usual)

    def fits_into(self, other: _Run) -> bool:
        """Return whether it lies inside one step of the other, with a usual step before it and one after it.

        One read alone shows no clock that was set: it leaves the counters of a new version as they began.
        """
        if self.first.at == self.last.at:
            return False
        at: Mapping[Counter, float] = other.first.values
        for place, step in enumerate(other.steps):
            then = {counter: at[counter] + step.values.get(counter, 0.0) for counter in EPOCH_COUNTERS if counter in at}
            usual = [*self.steps, *other.steps[:place], *other.steps[place + 1 :]]
            if usual and _neighbours(at, self.first.values, usual) and _neighbours(self.last.values, then, usual):
                return True
            at = then
        return False


def _neighbours(sooner: Mapping[Counter, float], later: Mapping[Counter, float], usual: Sequence[CounterStep]) -> bool:
    """Return whether one read lies above another as neighbouring ones do, in every counter that both have."""
    both = [one for one in EPOCH_COUNTERS if one in sooner and one in later and all(one in s.values for s in usual)]
    return bool(both) and all(_alike(later[one] - sooner[one], [step.values[one] for step in usual]) for one in both)


def _alike(gap: float, steps: Sequence[float]) -> bool:
    return min(steps) / NEIGHBOURS <= gap <= max(steps) * NEIGHBOURS and gap > 0


# Both sources count the same requests; their reads of one round lie some milliseconds apart.
_AS_MANY = 1.1


def contradicted_resets(table: CounterTable, other: CounterTable | None) -> tuple[CounterStep, ...]:
    """Return the steps that begin an epoch of a version in one source, and do not by the other; none without another.

    Either the other one listed a version before it is said to have appeared, and had counted some of its requests. Or
    it counted fewer since the read before than are said to have been counted from zero. Where it begins an epoch just
    then itself, or was not read, it denies nothing. One that jumps back again and again shows that several servers
    answer, and that a fall is another one's answer.
    """
    if other is None or other.first is None:
        return ()
    if other.unsteady:
        return tuple(step for step in table.resets if step.opened is Opened.RESET)
    began = other.resets
    return tuple(
        step
        for step in table.resets
        if not any(one.start <= step.end and step.start <= one.end for one in began)
        and (_listed_before(step, other) or _counted_fewer(step, other))
    )


def _listed_before(step: CounterStep, other: CounterTable) -> bool:
    first = other.first
    return (
        step.opened is Opened.APPEARED
        and first is not None
        and first.at <= step.start + SAME_ROUND_SECONDS
        and first.values.get(Counter.SUCCESS, 0.0) > 0
    )


def _counted_fewer(step: CounterStep, other: CounterTable) -> bool:
    meanwhile = [one for one in other.steps if one.start < step.end and step.start < one.end]
    watched = sum(min(one.end, step.end) - max(one.start, step.start) for one in meanwhile)
    if watched < step.end - step.start - 2 * SAME_ROUND_SECONDS:
        return False
    counted = increase(meanwhile, Counter.SUCCESS)
    return step.values.get(Counter.SUCCESS, 0.0) > _AS_MANY * counted + FEW_REQUESTS


__all__ = ["Batches", "Counter", "CounterPoint", "CounterStep", "CounterTable", "Delta", "Opened", "sum_steps"]
