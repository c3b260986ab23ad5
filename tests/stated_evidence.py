"""Evidence of one subject with stated readings, in place of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diagnostics.evidence.evidence import Span
from diagnostics.evidence.ledger import EntryPoint
from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.executions import BATCH_MARGINAL_COST, EXECUTION_SECONDS
from diagnostics.signals.inner_calls import InnerCalls
from diagnostics.signals.signal import Missing, Reading, Scope, Signal, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.service import BatchPoint, ServiceTime, fit
from diagnostics.window.graph import DeploymentGraph, Path
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.outages import Outage
from diagnostics.window.traces import SpanCounts, TracedRequest
from diagnostics.window.unanswered import Unanswered
from diagnostics.wire.model_config import ModelConfig

SUBJECT = Subject(server="triton-0", model="model", version="1")
_EVENTS = 1000.0
_SPAN = 60.0


class StatedEvidence:
    """One subject with stated readings; every other reading is absent."""

    def __init__(self, readings: Mapping[Signal, float]) -> None:
        self._readings = {signal.name: (signal, value) for signal, value in readings.items()}

    def read(self, signal: Signal, subject: Subject, span: Span | None = None) -> Reading:
        """Return the stated value, exact."""
        if signal.name not in self._readings:
            return Reading.unknown(Missing.NOT_EXPORTED, signal.unit)
        _, value = self._readings[signal.name]
        return Reading.of(value, signal.unit, "stated", events=_EVENTS, span=_SPAN)

    def subjects(self, scope: Scope) -> Sequence[Subject]:
        """Return the one subject, as a model or as its server."""
        return [SUBJECT] if scope in (Scope.MODEL, Scope.ENTRY) else [Subject(server=SUBJECT.server)]

    def graph(self, server: str) -> DeploymentGraph:
        """Return no ensemble."""
        return DeploymentGraph({})

    def config(self, subject: Subject) -> ModelConfig | None:
        """Return None: settings are stated as readings."""
        return None

    def config_file(self, subject: Subject) -> str | None:
        """Return None."""
        return None

    def model_control(self, server: str) -> str:
        """Return that it was not read."""
        return ""

    def service_time(self, subject: Subject) -> ServiceTime | None:
        """Return a service time with the stated mean and marginal cost."""
        mean, cost = self._value(EXECUTION_SECONDS), self._value(BATCH_MARGINAL_COST)
        if not mean:
            return None
        points = [BatchPoint(size=1, executions=1000, seconds=mean)]
        if cost is not None:
            points.append(BatchPoint(size=8, executions=100, seconds=mean * (1 + 7 * cost)))
        return fit(points)

    def refused(self, server: str) -> Mapping[str, str]:
        """Return none: nothing was read."""
        return {}

    def changes(self, server: str) -> Sequence[ServerChange]:
        """Return no change: what happened is stated as readings."""
        return []

    def outages(self, subject: Subject) -> Sequence[Outage]:
        """Return none: how long one lasted is stated as a reading."""
        return []

    def unanswered(self, server: str) -> Sequence[Unanswered]:
        """Return none: nothing was read."""
        return []

    def moments(self, server: str) -> Sequence[float]:
        """Return no instant."""
        return []

    def paths(self, subject: Subject) -> Sequence[tuple[TracedRequest, Path]]:
        """Return no trace: what traces say is stated as readings."""
        return []

    def calls(self, subject: Subject) -> Sequence[TracedRequest]:
        """Return no trace."""
        return []

    def inner_calls(self, server: str) -> Mapping[str, InnerCalls]:
        """Return none: their share is stated as a reading."""
        return {}

    def span_counts(self) -> SpanCounts:
        """Return none."""
        return SpanCounts()

    def is_engine(self, subject: Subject) -> bool:
        """Return whether the engine's gauges are stated."""
        return ENGINE_WAITING.name in self._readings

    def server_kind(self, subject: Subject) -> None:
        """Return None: cases are of Triton."""
        return

    def shows_engine_time(self, subject: Subject) -> bool:
        """Return False."""
        return False

    def hides_time(self, subject: Subject) -> bool:
        """Return whether it is an engine."""
        return self.is_engine(subject) and not self.shows_engine_time(subject)

    def answers_apart(self, subject: Subject) -> bool:
        """Return False."""
        return False

    def entry(self, subject: Subject) -> EntryPoint | None:
        """Return an entry of the stated mean request time, called directly; an engine's compute is its time."""
        mean = self._value(REQUEST_SECONDS)
        if mean is None:
            return None
        engine = (self._value(COMPUTE_SECONDS) or 0.0) if self.is_engine(subject) else 0.0
        return EntryPoint(ensemble=None, mean_seconds=mean, weight=1.0, requests=_EVENTS, engine_seconds=engine)

    def _value(self, signal: Signal) -> float | None:
        found = self._readings.get(signal.name)
        return found[1] if found else None
