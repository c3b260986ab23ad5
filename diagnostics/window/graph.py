"""The deployment graph, read from configurations, and the critical path of a request through it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from diagnostics import names
from diagnostics.window.traces import NANOSECOND, TracedVisit
from diagnostics.wire.model_config import EnsembleStep, ModelConfig


@dataclass(frozen=True, slots=True)
class Ensemble:
    """One ensemble. `edges[i]` holds the positions of the steps that consume an output of step i.

    Steps are in topological order when the graph has no cycle, as Triton requires.
    """

    name: str
    steps: tuple[EnsembleStep, ...]
    edges: tuple[tuple[int, ...], ...]
    _models: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Name the members once: hundreds of readings ask."""
        object.__setattr__(self, "_models", tuple(dict.fromkeys(step.model for step in self.steps)))

    def models(self) -> tuple[str, ...]:
        """Return member names in order, once each."""
        return self._models

    def after(self, model: str) -> tuple[str, ...]:
        """Return the models that consume an output of `model`."""
        return self._named(j for i, step in enumerate(self.steps) if step.model == model for j in self.edges[i])

    def before(self, model: str) -> tuple[str, ...]:
        """Return the models whose output `model` consumes."""
        return self._named(
            i for i, followers in enumerate(self.edges) for j in followers if self.steps[j].model == model
        )

    def behind(self, model: str) -> frozenset[str]:
        """Return the models that `model`'s outputs lead to, directly or through others; without itself."""
        reached: set[str] = set()
        for i, step in enumerate(self.steps):  # producers come first
            if step.model == model or step.model in reached:
                reached.update(self.steps[j].model for j in self.edges[i])
        return frozenset(reached - {model})

    def longest_path(self, seconds: Mapping[str, float], through: str = "") -> tuple[tuple[str, ...], float]:
        """Return the path of steps with the largest sum of `seconds` (per model; absent ones weigh 0) and that sum.

        With a model to go `through`, the longest of those paths on which it is most often.
        """
        if through:
            much = sum(seconds.values()) * len(self.steps) + 1.0
            named, _ = self.longest_path({**seconds, through: seconds.get(through, 0.0) + much})
            return named, sum(seconds.get(model, 0.0) for model in named)
        best: dict[int, tuple[tuple[int, ...], float]] = {}
        for i in reversed(range(len(self.steps))):
            tail = max((best[j] for j in self.edges[i] if j in best), key=lambda path: path[1], default=((), 0.0))
            best[i] = ((i, *tail[0]), seconds.get(self.steps[i].model, 0.0) + tail[1])
        path, total = max(best.values(), key=lambda found: found[1], default=((), 0.0))
        return tuple(self.steps[i].model for i in path), total

    def _named(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.steps[i].model for i in positions))


@dataclass(frozen=True, slots=True)
class DeploymentGraph:
    """All ensembles of one server, by name."""

    ensembles: Mapping[str, Ensemble]
    _callers: dict[str, tuple[Ensemble, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def callers(self, model: str) -> tuple[Ensemble, ...]:
        """Return the ensembles that have `model` among their steps."""
        found = self._callers.get(model)
        if found is None:
            found = tuple(ensemble for ensemble in self.ensembles.values() if model in ensemble.models())
            self._callers[model] = found
        return found


def graph_of(configs: Mapping[str, ModelConfig]) -> DeploymentGraph:
    """Return the graph of these configurations; empty when none was read."""
    return DeploymentGraph(
        {
            name: Ensemble(name, *_ordered(config.ensemble_steps))
            for name, config in sorted(configs.items())
            if config.platform == names.ENSEMBLE_PLATFORM or config.ensemble_steps
        }
    )


def _ordered(steps: Sequence[EnsembleStep]) -> tuple[tuple[EnsembleStep, ...], tuple[tuple[int, ...], ...]]:
    """Return steps sorted so that producers come first, with their edges; input maps name tensors as values."""
    feeds = _feeds(steps)
    awaited = [0] * len(steps)
    for i, followers in enumerate(feeds):
        for j in followers:
            awaited[j] += i != j
    order: list[int] = []
    placed = [False] * len(steps)
    ready = [i for i, count in enumerate(awaited) if not count]
    while ready:
        order.extend(ready)
        for i in ready:
            placed[i] = True
        ready = _freed_by(ready, feeds, awaited)
    # A cycle cannot load in Triton; a damaged configuration is taken as written.
    order.extend(i for i, done in enumerate(placed) if not done)
    position = {old: new for new, old in enumerate(order)}
    return (
        tuple(steps[i] for i in order),
        tuple(tuple(sorted(position[j] for j in feeds[i] if position[j] > position[i])) for i in order),
    )


def _feeds(steps: Sequence[EnsembleStep]) -> list[list[int]]:
    """Return for each step the positions of those that consume one of its outputs, ascending."""
    consumers: dict[str, list[int]] = {}
    for j, step in enumerate(steps):
        for tensor in set(step.input_map.values()):
            consumers.setdefault(tensor, []).append(j)
    return [sorted({j for tensor in step.output_map.values() for j in consumers.get(tensor, ())}) for step in steps]


def _freed_by(ready: Iterable[int], feeds: Sequence[Sequence[int]], awaited: list[int]) -> list[int]:
    """Count the steps in `ready` as done; return the steps that wait for nothing any more, ascending."""
    freed = []
    for i in ready:
        for j in feeds[i]:
            if j != i:
                awaited[j] -= 1
                if not awaited[j]:
                    freed.append(j)
    return sorted(freed)


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
