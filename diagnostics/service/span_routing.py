"""Which deployment a span belongs to: by what its sender is called, by its model, or by the rest of its trace."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping

from diagnostics.service.deployment import Deployment
from diagnostics.service.service import Service
from diagnostics.service.state import Evaluation
from diagnostics.signals.subject import Scope
from diagnostics.wire.spans import Span
from exporters.sources.address import parse_address

# Traces whose deployments are remembered for the spans that other senders still have of them.
MOST_TRACES = 20_000
# Spans that wait until one of their trace tells where they belong, and for how many seconds: exporters send every five.
MOST_WAITING = 20_000
PATIENCE = 30.0
# Putting the names of all models together again at each verdict would cost more than it tells.
_SECONDS_BETWEEN_LOOKS = 1.0
Routed = dict[str, list[Span]]


class DeploymentNames:
    """What tells deployments apart: names of servers, and models that only one of them holds."""

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
        """Begin with nothing that waits; `unassigned` is told how many spans are given up."""
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
