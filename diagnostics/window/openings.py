"""Whether counters that seem to have begun anew inside the window did so: else their first step counts no zero.

What looks like a load or a restart may be another recording behind a hole, another server's answer, or a row that was
left out of earlier bodies. Then the counters hold what happened before anyone looked, and to count it from zero would
make a burst, a cold start or a stall of it. Such a first step is left out; the steps behind it are as good as any.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from diagnostics.window.points import Counter
from diagnostics.window.steps import CounterStep, Opened

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
    """Return the first steps of epochs that were not counted from zero; none with too few other steps to tell."""
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
