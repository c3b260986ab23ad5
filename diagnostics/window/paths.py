"""The critical path of an ensemble's request: which stages, and which gaps between them, its time went to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from diagnostics.window.graph import Ensemble
from diagnostics.window.visits import NANOSECOND, TracedVisit

# A stage hands its output on before its own span says that it is done; the next one starts this much early at most.
_SLACK_NS = 1_000_000
# A dispatch between two stages takes some tens of microseconds; a gap of ten times that holds somebody's work.
_DISPATCH_NS = 1_000_000


class PathStep(NamedTuple):
    """A visit on the path, the stage whose end it followed (None at the start) and the gap between, nanoseconds."""

    visit: TracedVisit
    after: str | None
    gap: int


class Call(NamedTuple):
    """A visit that another one made from inside its execution, and when its answer was there, Unix nanoseconds."""

    visit: TracedVisit
    answered: int


class Path(NamedTuple):
    """The steps in order, and the nanoseconds from the last one's end to the ensemble's own."""

    steps: tuple[PathStep, ...]
    tail: int

    def gap_seconds(self, counts: Callable[[str | None], bool]) -> float:
        """Return the time of the gaps behind those stages (None: before the first) for which `counts` holds."""
        last = self.steps[-1].visit.model if self.steps else None
        gaps = sum(step.gap for step in self.steps if counts(step.after))
        return (gaps + (self.tail if counts(last) else 0)) * NANOSECOND


def path_of(root: TracedVisit, ensemble: Ensemble | None, hidden: Collection[str] = ()) -> Path | None:
    """Return the chain of visits that an ensemble's request waited for; None without any visit.

    Walked back from the end: before each stage comes, of those it reads from, the one that ended last before it.

    Args:
        root: the visit to the ensemble.
        ensemble: which stage reads from which; without it any earlier stage may come before.
        hidden: models that go on working after their span has ended: behind one of them a gap is theirs.

    """
    if not root.below:
        return None
    by_end = sorted(root.below, key=_done)
    ends = [_done(visit) for visit in by_end]
    current, steps = by_end[-1], list[PathStep]()
    tail = max(root.end - _done(current), 0)
    for _ in by_end:
        before = _before(current, by_end[: bisect_right(ends, current.start + _SLACK_NS)], ensemble, hidden)
        since = _done(before) if before else root.start
        steps.append(PathStep(current, before.model if before else None, max(current.start - since, 0)))
        if before is None:
            break
        current = before
    return Path(tuple(reversed(steps)), tail)


def calls_of(caller: TracedVisit, hidden: Collection[str] = ()) -> list[Call]:
    """Return the calls that a visit made from inside its execution, in order of their start.

    Args:
        caller: the visit.
        hidden: models that go on working after their span has ended: one of them answers before the caller's next call,
            or before its execution ends.

    """
    starts = sorted(visit.start for visit in caller.below)
    last = caller.end if caller.computed is None else caller.computed

    def answered(visit: TracedVisit) -> int:
        following = bisect_left(starts, visit.end)
        return max(visit.end, starts[following] if following < len(starts) else last)

    return [Call(visit, answered(visit) if visit.model in hidden else visit.end) for visit in caller.below]


def _done(visit: TracedVisit) -> int:
    """Return when a visit's output was there: its computation's end, which its span outlasts."""
    return visit.end if visit.computed is None or visit.below else visit.computed


def _before(
    visit: TracedVisit, earlier: Sequence[TracedVisit], ensemble: Ensemble | None, hidden: Collection[str]
) -> TracedVisit | None:
    sources = ensemble.before(visit.model) if ensemble else None
    found: TracedVisit | None = None
    for candidate in reversed(earlier):
        if candidate is visit or candidate.start >= visit.start:
            continue
        if sources is not None and candidate.model not in sources:
            continue
        if found is None:
            found = candidate
            if candidate.model in hidden or visit.start - _done(candidate) < _DISPATCH_NS or not hidden:
                return found
        elif candidate.model in hidden:
            return candidate
    return found
