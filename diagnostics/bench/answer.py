"""What the client saw of one request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """One request and its answer; times are seconds of one steady clock.

    Attributes:
        due: when it was to be sent. Where requests have no schedule (closed loop) it is `sent`.
        sent: when it was sent.
        first: when the first response came; None if none did, or if responses do not come one by one.
        end: when the last byte came, or the failure.
        ok: whether the answer is a result.
        code: HTTP status; of gRPC, 200 for a result and 500 for a refusal; 0 where no answer came.
        tokens: tokens of the answer; None where nothing counted them.
        error: why it failed; empty otherwise.

    """

    due: float
    sent: float
    first: float | None = None
    end: float
    ok: bool
    code: int
    tokens: int | None = None
    error: str = ""

    @property
    def late(self) -> float:
        """Seconds that the client itself sent it too late."""
        return self.sent - self.due

    @property
    def latency(self) -> float:
        """Seconds from the intended sending to the end.

        A request that had to wait for a slow server before it was sent has waited, too; to leave that out is
        coordinated omission (Tene, How NOT to Measure Latency, 2013).
        """
        return self.end - self.due

    @property
    def ttft(self) -> float | None:
        """Time to first token: seconds from the intended sending to the first response; None if it is not seen."""
        return None if self.first is None else self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, (end − first) ÷ (tokens − 1), in seconds.

        None where tokens were not counted, are fewer than two, or do not come one by one.
        """
        if self.first is None or self.tokens is None or self.tokens < 2:
            return None
        return (self.end - self.first) / (self.tokens - 1)
