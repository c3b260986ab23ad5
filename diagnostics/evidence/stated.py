"""Evidence from readings whose time apart is unknown: only what does not depend on that time is a reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from diagnostics.evidence.evidence import Span, WindowEvidence
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
from diagnostics.window.window import Window
from diagnostics.wire.model_config import ModelConfig


class UntimedEvidence(WindowEvidence):
    """Evidence from a window that is laid out twice, over the shortest and the longest time that is possible.

    A mean, a batch size or a share of requests is the same in both and is told, as estimated where the readings are
    averages since a server's start. A rate or a busy share is not, and is absent.
    """

    def __init__(self, window: Window, stretched: Window, *, estimated: bool) -> None:
        super().__init__(window)
        self._stretched, self._estimated = WindowEvidence(stretched), estimated

    def read(self, signal: Signal, on: Subject, span: Span | None = None) -> Reading:
        """Return the signal's reading where any time between the readings gives the same."""
        short, long = super().read(signal, on), self._stretched.read(signal, on)
        if span is not None and span != (self.window.start, self.window.end):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, signal.unit)
        if (short.value, short.low, short.high, short.missing) != (long.value, long.low, long.high, long.missing):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, signal.unit, short.source)
        return replace(short, span=None, estimated=True) if self._estimated and short.missing is None else short

    def moments(self, server: str) -> Sequence[float]:  # noqa: ARG002 (of no server is it known)
        """Return none: when the readings were made is not known."""
        return ()


SUBJECT = Subject(server="triton-0", model="model", version="1")
_EVENTS = 1000.0
_SPAN = 60.0


class StatedEvidence:
    """One subject with stated readings; every other reading is absent."""

    def __init__(self, readings: Mapping[Signal, float]) -> None:
        self._readings = {signal.name: (signal, value) for signal, value in readings.items()}

    def read(self, signal: Signal, on: Subject, span: Span | None = None) -> Reading:  # noqa: ARG002
        """Return the stated value, exact."""
        if signal.name not in self._readings:
            return Reading.unknown(Missing.NOT_EXPORTED, signal.unit)
        _, value = self._readings[signal.name]
        return Reading.of(value, signal.unit, "stated", events=_EVENTS, span=_SPAN)

    def subjects(self, scope: Scope) -> Sequence[Subject]:
        """Return the one subject, as a model or as its server."""
        return [SUBJECT] if scope in (Scope.MODEL, Scope.ENTRY) else [Subject(server=SUBJECT.server)]

    def graph(self, server: str) -> DeploymentGraph:  # noqa: ARG002
        """Return no ensemble."""
        return DeploymentGraph({})

    def config(self, on: Subject) -> ModelConfig | None:  # noqa: ARG002
        """Return None: settings are stated as readings."""
        return None

    def config_file(self, on: Subject) -> str | None:  # noqa: ARG002
        """Return None."""
        return None

    def model_control(self, server: str) -> str:  # noqa: ARG002
        """Return that it was not read."""
        return ""

    def service_time(self, on: Subject) -> ServiceTime | None:  # noqa: ARG002
        """Return a service time with the stated mean and marginal cost."""
        mean, cost = self._value(EXECUTION_SECONDS), self._value(BATCH_MARGINAL_COST)
        if not mean:
            return None
        points = [BatchPoint(size=1, executions=1000, seconds=mean)]
        if cost is not None:
            points.append(BatchPoint(size=8, executions=100, seconds=mean * (1 + 7 * cost)))
        return fit(points)

    def refused(self, server: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return none: nothing was read."""
        return {}

    def changes(self, server: str) -> Sequence[ServerChange]:  # noqa: ARG002
        """Return no change: what happened is stated as readings."""
        return []

    def outages(self, on: Subject) -> Sequence[Outage]:  # noqa: ARG002
        """Return none: how long one lasted is stated as a reading."""
        return []

    def unanswered(self, server: str) -> Sequence[Unanswered]:  # noqa: ARG002
        """Return none: nothing was read."""
        return []

    def moments(self, server: str) -> Sequence[float]:  # noqa: ARG002
        """Return no instant."""
        return []

    def paths(self, on: Subject) -> Sequence[tuple[TracedRequest, Path]]:  # noqa: ARG002
        """Return no trace: what traces say is stated as readings."""
        return []

    def calls(self, on: Subject) -> Sequence[TracedRequest]:  # noqa: ARG002
        """Return no trace."""
        return []

    def inner_calls(self, server: str) -> Mapping[str, InnerCalls]:  # noqa: ARG002
        """Return none: their share is stated as a reading."""
        return {}

    def span_counts(self) -> SpanCounts:
        """Return none."""
        return SpanCounts()

    def is_engine(self, on: Subject) -> bool:  # noqa: ARG002
        """Return whether the engine's gauges are stated."""
        return ENGINE_WAITING.name in self._readings

    def server_kind(self, on: Subject) -> None:  # noqa: ARG002
        """Return None: cases are of Triton."""
        return

    def shows_engine_time(self, on: Subject) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def hides_time(self, on: Subject) -> bool:
        """Return whether it is an engine."""
        return self.is_engine(on) and not self.shows_engine_time(on)

    def answers_apart(self, on: Subject) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def entry(self, on: Subject) -> EntryPoint | None:
        """Return an entry of the stated mean request time, called directly; an engine's compute is its time."""
        mean = self._value(REQUEST_SECONDS)
        if mean is None:
            return None
        engine = (self._value(COMPUTE_SECONDS) or 0.0) if self.is_engine(on) else 0.0
        return EntryPoint(ensemble=None, mean_seconds=mean, weight=1.0, requests=_EVENTS, engine_seconds=engine)

    def _value(self, signal: Signal) -> float | None:
        found = self._readings.get(signal.name)
        return found[1] if found else None
