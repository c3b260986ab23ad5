"""Which traces are kept when more arrive than can be: a share per deployment, by the ranks of their ids.

A share is a power of one half. It is halved at once when a period's budget is spent, and doubled after a period that
left three quarters of it; so a trace that is kept is kept whole, but for those under way when the share changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.wire.spans import RANKS, Span, rank

# Exporters send every five seconds: several of their batches tell how much comes.
PERIOD = 30.0
_MOST_HALVINGS = 24
# A share is doubled only when twice as much would fill half of the budget: not back and forth.
_ROOM_FOR_TWICE = 4
# Budgets that a burst may take: half of one more is kept at each halving, and eight halvings make 200 of 50,000.
# Whoever makes up ids of low ranks is left out by none.
_MOST_OF_A_BURST = 8


@dataclass(slots=True)
class _Kept:
    """A deployment's share, what was kept at it in this period, in fact and at that share, and in the last one."""

    halvings: int = 0
    spans: float = 0.0
    taken: int = 0
    before: float = 0.0

    @property
    def limit(self) -> int:
        return RANKS >> self.halvings


class SpanSampler:
    """Bounds spans over all deployments: those of which any come get equal parts. For use by one thread at a time."""

    def __init__(self, per_second: int, metrics: OwnMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with keeping everything.

        Args:
            per_second: spans that are kept of all deployments together, on average over a period.
            metrics: told of shares, and of spans that are left out.
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
        active = sum(1 for kept in self._kept.values() if kept.spans or kept.before or kept is one)
        most = self._budget / active
        spans = _below(one.limit, spans)
        while one.spans + len(spans) > most and one.halvings < _MOST_HALVINGS:
            one.halvings += 1
            one.spans /= 2  # at this share it would have been so many
            spans = _below(one.limit, spans)
        spans = spans[: max(0, int(_MOST_OF_A_BURST * most) - one.taken)]
        one.spans += len(spans)
        one.taken += len(spans)
        self._metrics.spans.labels("left_out").inc(before - len(spans))
        self._metrics.spans_kept_share.labels(deployment).set(one.limit / RANKS)
        return spans

    def _of(self, deployment: str) -> _Kept:
        return self._kept.setdefault(deployment, _Kept())

    def _turn(self) -> None:
        """Begin another period when one is over."""
        passed = int((self._clock() - self._since) / PERIOD)
        if passed <= 0:
            return
        self._since += passed * PERIOD
        most = self._budget / max(1, sum(1 for kept in self._kept.values() if kept.spans or kept.before))
        for one in self._kept.values():
            room = one.spans * _ROOM_FOR_TWICE < most
            one.halvings = max(0, one.halvings - room - (passed - 1))
            one.before, one.spans, one.taken = one.spans if passed == 1 else 0.0, 0.0, 0


def _below(limit: int, spans: Sequence[Span]) -> Sequence[Span]:
    return spans if limit == RANKS else [span for span in spans if rank(span.trace) < limit]
