"""Evidence from readings whose time apart is unknown: only what does not depend on that time is a reading."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from diagnostics.evidence.evidence import Span, WindowEvidence
from diagnostics.signals.signal import Missing, Reading, Signal, Subject
from diagnostics.window.window import Window


class UntimedEvidence(WindowEvidence):
    """Evidence from a window that is laid out twice, over the shortest and the longest time that is possible.

    A mean, a batch size or a share of requests is the same in both and is shown, as estimated where the readings are
    averages since a server's start. A rate or a busy share is not, and is absent.
    """

    def __init__(self, window: Window, stretched: Window, *, estimated: bool) -> None:
        super().__init__(window)
        self._stretched, self._estimated = WindowEvidence(stretched), estimated

    def read(self, signal: Signal, subject: Subject, span: Span | None = None) -> Reading:
        """Return the signal's reading where any time between the readings gives the same."""
        short, long = super().read(signal, subject), self._stretched.read(signal, subject)
        if span is not None and span != (self.window.start, self.window.end):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, signal.unit)
        if (short.value, short.low, short.high, short.missing) != (long.value, long.low, long.high, long.missing):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, signal.unit, short.source)
        return replace(short, span=None, estimated=True) if self._estimated and short.missing is None else short

    def moments(self, server: str) -> Sequence[float]:  # noqa: ARG002 (of no server is it known)
        """Return none: when the readings were made is not known."""
        return ()
