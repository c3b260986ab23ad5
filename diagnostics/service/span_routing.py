"""Which traces are kept when more arrive than can be: a share per deployment, by the ranks of their ids.

A share is a power of one half. It is halved at once when a period's budget is spent, and doubled after a period that
left three quarters of it; so a trace that is kept is kept whole, but for those under way when the share changes.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.service.deployment import Deployment
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.state import Evaluation
from diagnostics.signals.signal import Scope
from diagnostics.wire.spans import BANDS, RANKS, Span, band, rank
from exporters.sources.address import parse_address

# Exporters send every five seconds: several of their batches show how much comes.
PERIOD = 30.0
_MOST_HALVINGS = 24
# A share is doubled only when twice as much would fill half of the budget: not back and forth.
_ROOM_FOR_TWICE = 4
# Budgets that a burst may take: half of one more is kept at each halving, and eight halvings make 200 of 50,000.
_MOST_OF_A_BURST = 8
# Whoever makes up ids of low ranks is left out by no halving: of each part of the ranks so many times as much counts,
# and is kept of a burst, as honest ids would fill it with. So it is not the others that are left out.
_MOST_OF_A_BAND = 2
# Spans of a few traces, which may be of one band by chance: as many count in any case.
_FEW = 100


@dataclass(slots=True)
class _Kept:
    """A deployment's share, what was kept at it in this period by band, in fact and at that share, and in the last."""

    halvings: int = 0
    bands: list[float] = field(default_factory=lambda: [0.0] * BANDS)
    taken: list[int] = field(default_factory=lambda: [0] * BANDS)
    before: float = 0.0

    def spans(self, most: float) -> float:
        """Return how many spans were kept, of each band as many as may count of a budget of `most`."""
        each = max(_FEW, _MOST_OF_A_BAND * most / BANDS)
        return sum(min(one, each) for one in self.bands)

    def halve(self) -> None:
        """Keep half of the ranks, at which half as much would have been kept of each band."""
        self.halvings += 1
        self.bands = [self.bands[at // 2] / 2 for at in range(BANDS)]
        self.taken = [self.taken[at // 2] for at in range(BANDS)]

    @property
    def limit(self) -> int:
        return RANKS >> self.halvings


class SpanSampler:
    """Bounds spans over all deployments: those of which any come get equal parts. For use by one thread at a time."""

    def __init__(self, per_second: int, metrics: OwnMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with keeping everything.

        Args:
            per_second: spans that are kept of all deployments together, on average over a period.
            metrics: gets the shares, and the spans that are left out.
            clock: steady seconds.

        """
        self._budget, self._metrics, self._clock = per_second * PERIOD, metrics, clock
        self._kept: dict[str, _Kept] = {}
        self._since = clock()

    def share(self, deployment: str) -> float:
        """Return the share of a deployment's traces that is kept now."""
        return self._of(deployment).limit / RANKS

    def limit(self, deployment: str) -> int:
        """Return the rank from which on a deployment's traces are left out now."""
        self._turn()
        return self._of(deployment).limit

    def sift(self, deployment: str, spans: Sequence[Span]) -> Sequence[Span]:
        """Return the spans that are kept, and count the others.

        When a burst begins its share is not known yet: half a budget more is kept at each halving.
        """
        self._turn()
        one, before = self._of(deployment), len(spans)
        active = sum(1 for kept in self._kept.values() if any(kept.bands) or kept.before or kept is one)
        most = self._budget / active
        spans = _below(one.limit, spans)
        while self._with(one, spans).spans(most) > most and one.halvings < _MOST_HALVINGS:
            one.halve()
            spans = _below(one.limit, spans)
        spans = _within_bands(one, spans, max(_FEW, int(_MOST_OF_A_BURST * most / BANDS)))
        self._metrics.spans.labels("left_out").inc(before - len(spans))
        self._metrics.spans_kept_share.labels(deployment).set(one.limit / RANKS)
        return spans

    @staticmethod
    def _with(one: _Kept, spans: Sequence[Span]) -> _Kept:
        came = Counter(band(span.trace, one.limit) for span in spans)
        return replace(one, bands=[kept + came[at] for at, kept in enumerate(one.bands)])

    def _of(self, deployment: str) -> _Kept:
        return self._kept.setdefault(deployment, _Kept())

    def _turn(self) -> None:
        """Begin another period when one is over."""
        passed = int((self._clock() - self._since) / PERIOD)
        if passed <= 0:
            return
        self._since += passed * PERIOD
        most = self._budget / max(1, sum(1 for kept in self._kept.values() if any(kept.bands) or kept.before))
        for one in self._kept.values():
            spans = one.spans(most)
            room = spans * _ROOM_FOR_TWICE < most
            one.halvings = max(0, one.halvings - room - (passed - 1))
            one.before, one.bands, one.taken = spans if passed == 1 else 0.0, [0.0] * BANDS, [0] * BANDS


def _within_bands(one: _Kept, spans: Sequence[Span], most: int) -> Sequence[Span]:
    """Return the spans for which there is room in their bands, and count them."""
    kept = []
    for span in spans:
        at = band(span.trace, one.limit)
        if one.taken[at] < most:
            one.taken[at] += 1
            one.bands[at] += 1
            kept.append(span)
    return kept


def _below(limit: int, spans: Sequence[Span]) -> Sequence[Span]:
    return spans if limit == RANKS else [span for span in spans if rank(span.trace) < limit]


# Traces whose deployments are remembered for the spans that other senders still have of them.
MOST_TRACES = 20_000
# Spans that wait until one of their trace shows where they belong, and for how many seconds: exporters send every five.
MOST_WAITING = 20_000
PATIENCE = 30.0
# Putting the names of all models together again at each verdict would cost more than it shows.
_SECONDS_BETWEEN_LOOKS = 1.0
Routed = dict[str, list[Span]]


class DeploymentNames:
    """What separates deployments: names of servers, and models that only one of them holds."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._looked = float("-inf")
        self._seen: tuple[object, object] = (None, None)
        self._models_of: dict[str, tuple[Evaluation, frozenset[str]]] = {}
        self._servers: Mapping[str, str] = {}
        self._models: Mapping[str, str] = {}

    def called(self, instance: str) -> str | None:
        """Return the deployment one of whose servers calls itself so; None when none does, or several."""
        return self._servers.get(instance) if instance else None

    def owner(self, span: Span) -> str | None:
        """Return the deployment that a span names by its sender or its model; None when it names none, or several."""
        return self.called(span.instance) or self._models.get(span.model)

    def look(self) -> None:
        """Take up what servers and verdicts have come since."""
        now, state = self._clock(), self._service.board.read()
        seen = (state.targets, state.evaluations)
        if now - self._looked < _SECONDS_BETWEEN_LOOKS or all(map(lambda a, b: a is b, seen, self._seen)):
            return
        self._looked, self._seen = now, seen
        self._servers = _unambiguous(self._server_names())
        for name, evaluation in state.evaluations.items():
            if self._models_of.get(name, (None,))[0] is not evaluation:
                self._models_of[name] = (evaluation, frozenset(_models(evaluation)))
        for name in set(self._models_of) - set(state.evaluations):
            del self._models_of[name]
        self._models = _unambiguous((model, name) for name, (_, held) in self._models_of.items() for model in held)

    def _server_names(self) -> Iterator[tuple[str, str]]:
        for name in self._service.deployments:
            yield name, name
        for target in self._service.board.read().targets.values():
            address = parse_address(target.url)
            for called in {target.server, target.url, address.netloc(), address.host}:
                yield called, target.deployment


def _models(evaluation: Evaluation) -> Iterator[str]:
    for scope in (Scope.MODEL, Scope.ENSEMBLE):
        for subject in evaluation.explanation.evidence.subjects(scope):
            yield subject.model or subject.ensemble or ""


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str | None] = {}
    for called, deployment in pairs:
        found[called] = deployment if found.setdefault(called, deployment) == deployment else None
    return {called: deployment for called, deployment in found.items() if called and deployment}


class Router:
    """Sends spans to deployments. Spans of a trace that names none wait, bounded, until another span of it does."""

    def __init__(self, service: Service, unassigned: Callable[[int], object]) -> None:
        """Begin with nothing that waits; `unassigned` is called with how many spans are given up."""
        self._service, self._unassigned = service, unassigned
        self._names = DeploymentNames(service)
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._waiting: OrderedDict[str, tuple[float, list[Span]]] = OrderedDict()
        self._held = 0

    def called(self, instance: str) -> str | None:
        """Return the deployment that everything of a sender is of; None when that is not known yet."""
        deployments = self._service.deployments
        return next(iter(deployments)) if len(deployments) == 1 else self._names.called(instance)

    def route(self, spans: list[Span], at: float) -> Routed:
        """Return the spans by deployment, with those that waited for them; `at` is Unix seconds."""
        deployments: Mapping[str, Deployment] = self._service.deployments
        if len(deployments) == 1:
            return {name: spans for name in deployments if spans}
        self._names.look()
        routed: Routed = {}
        rest = self._own(spans, routed)
        for span in rest:
            owners = self._known.get(span.trace)
            if owners is None:
                self._wait(span, at)
            for owner in owners or ():
                routed.setdefault(owner, []).append(span)
        self._give_up(at)
        return {name: found for name, found in routed.items() if name in deployments}

    def _own(self, spans: list[Span], routed: Routed) -> list[Span]:
        """Route what says itself where it belongs; return the rest."""
        rest = []
        for span in spans:
            owner = self._names.owner(span)
            if owner is None:
                rest.append(span)
                continue
            routed.setdefault(owner, []).append(span)
            owners = self._known.get(span.trace, ())
            if owner not in owners:
                self._learn(span.trace, (*owners, owner))
                rest.extend(self._release(span.trace))
        return rest

    def _learn(self, trace: str, owners: tuple[str, ...]) -> None:
        self._known[trace] = owners
        while len(self._known) > MOST_TRACES:
            self._known.popitem(last=False)

    def _release(self, trace: str) -> list[Span]:
        _, spans = self._waiting.pop(trace, (0.0, []))
        self._held -= len(spans)
        return spans

    def _wait(self, span: Span, at: float) -> None:
        self._waiting.setdefault(span.trace, (at, []))[1].append(span)
        self._held += 1

    def _give_up(self, at: float) -> None:
        while self._waiting:
            trace, (since, _) = next(iter(self._waiting.items()))
            if self._held <= MOST_WAITING and 0 <= at - since <= PATIENCE:
                return
            self._unassigned(len(self._release(trace)))
