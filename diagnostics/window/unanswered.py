"""Stretches in which one of a server's ports answered no read, while the reads of others went on.

Statistics and index come from the port that requests are sent to: what refuses their reads refuses requests too. The
metrics page has a port of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from diagnostics.wire.failed_reads import refused, unanswered
from diagnostics.wire.records import BodyKind

INFERENCE_PORT, METRICS_PORT = "inference port", "metrics port"
# One round may meet a pause of the reader or of the network.
FEWEST_ROUNDS = 2
_KINDS = {BodyKind.STATISTICS: INFERENCE_PORT, BodyKind.INDEX: INFERENCE_PORT, BodyKind.METRICS: METRICS_PORT}


class FailedRead(NamedTuple):
    """A read that gave no body: when (Unix seconds), of what, and why."""

    at: float
    kind: BodyKind
    reason: str

    @property
    def port(self) -> str | None:
        """Which port was asked; None where either may have been."""
        return _KINDS.get(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Reads of one port that all failed, one after another, for want of an answer or of a port. Times are Unix seconds.

    Attributes:
        port: `INFERENCE_PORT` or `METRICS_PORT`.
        after: the last answer before them; None when there was none.
        since, until: the first and the last of them.
        before: the first answer after them; None when there was none.
        reads: how many.
        refused: whether nothing listened at any of them.
        reason: of the newest.

    """

    port: str
    after: float | None
    since: float
    until: float
    before: float | None
    reads: int
    refused: bool
    reason: str


def stretches_unanswered(
    port: str, answered: Sequence[float], failed: Sequence[FailedRead], other: Sequence[float]
) -> Iterator[Unanswered]:
    """Yield the stretches of one port in which the other port was read.

    Args:
        port: which.
        answered: Unix seconds of the answers of this port.
        failed: the server's failed reads.
        other: Unix seconds of the answers of the other port.

    """
    own = [one for one in failed if one.port == port]
    if own and other and not answered and not all(unanswered(one.reason) for one in own):
        yield _never_read(port, own)
        return
    tries = sorted([*((at, "", "") for at in answered), *((one.at, one.reason, one.kind) for one in own)])
    runs = [(silent, list(run)) for silent, run in groupby(tries, key=lambda read: unanswered(read[1]))]
    for number, (silent, run) in enumerate(runs):
        since, until = run[0][0], run[-1][0]
        rounds = max(Counter(kind for _, _, kind in run).values())
        if not silent or rounds < FEWEST_ROUNDS or not any(since <= at <= until for at in other):
            continue
        yield Unanswered(
            port=port,
            after=runs[number - 1][1][-1][0] if number else None,
            since=since,
            until=until,
            before=runs[number + 1][1][0][0] if number + 1 < len(runs) else None,
            reads=len(run),
            refused=all(refused(reason) for _, reason, _ in run),
            reason=run[-1][1],
        )


def _never_read(port: str, failed: Sequence[FailedRead]) -> Unanswered:
    """Return a whole window in which something else than silence kept a port from being read."""
    return Unanswered(
        port=port,
        after=None,
        since=failed[0].at,
        until=failed[-1].at,
        before=None,
        reads=len(failed),
        refused=False,
        reason=failed[-1].reason,
    )
