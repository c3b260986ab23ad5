"""Stretches in which one of a server's ports answered no read, while the reads of others went on.

Statistics and index come from the port that requests are sent to: what refuses their reads refuses requests too. The
metrics page has a port of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from typing import NamedTuple

from diagnostics.wire.failed_reads import refused, unanswered
from diagnostics.wire.records import BodyKind

INFERENCE_PORT, METRICS_PORT = "inference port", "metrics port"
# One round may meet a pause of the reader or of the network.
FEWEST_ROUNDS = 2
# One run of failures is not scattered. Of two and more, as few as chance makes once in forty times are not (2 σ).
_FEWEST_APART, _DEVIATIONS = 2, 2.0
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


class Try(NamedTuple):
    """A read of a port: when (Unix seconds), why it failed (empty where it was answered), and of what."""

    at: float
    reason: str
    kind: BodyKind


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
    port: str, answered: Sequence[Try], failed: Sequence[FailedRead], other: Sequence[Try]
) -> Iterator[Unanswered]:
    """Yield the stretches of one port in which the other port was read.

    A server that stops closes one port before the other. Where both are silent in the end, the other has to have
    answered several rounds in between.

    Args:
        port: which.
        answered: the answered reads of this port.
        failed: the server's failed reads.
        other: the answered reads of the other port.

    """
    own = [one for one in failed if one.port == port]
    if own and other and not answered and not all(unanswered(one.reason) for one in own):
        yield _never_read(port, own)
        return
    tries = sorted([*answered, *(Try(one.at, one.reason, one.kind) for one in own)])
    if _scattered(tries):
        return
    runs = [(silent, list(run)) for silent, run in groupby(tries, key=lambda read: unanswered(read.reason))]
    for number, (silent, run) in enumerate(runs):
        since, until = run[0].at, run[-1].at
        rounds = max(Counter(one.kind for one in run).values())
        answers = [one.at for one in other if since <= one.at <= until]
        if not silent or rounds < FEWEST_ROUNDS or not answers:
            continue
        if len(answers) < FEWEST_ROUNDS and _fell_silent(port, failed, answers[-1], until):
            continue
        yield Unanswered(
            port=port,
            after=runs[number - 1][1][-1].at if number else None,
            since=since,
            until=until,
            before=runs[number + 1][1][0].at if number + 1 < len(runs) else None,
            reads=len(run),
            refused=all(refused(one.reason) for one in run),
            reason=run[-1].reason,
        )


def _fell_silent(port: str, failed: Sequence[FailedRead], answered: float, until: float) -> bool:
    """Return whether the other port answered no read either after its last answer inside a stretch."""
    return any(answered < one.at <= until and one.port not in (port, None) and unanswered(one.reason) for one in failed)


def _scattered(tries: Sequence[Try]) -> bool:
    """Return whether reads of a kind fail here and there, as chance scatters them, instead of for a while.

    Wald and Wolfowitz' runs test: n reads of which f fail, each by itself, make 1 + 2 f (n - f) ÷ n runs on average,
    with a variance of (mean - 1) (mean - 2) ÷ (n - 1). Failures that are all in one run are a while.
    """
    kinds = {one.kind for one in tries}
    return any(_is_by_chance([unanswered(one.reason) for one in tries if one.kind == kind]) for kind in kinds)


def _is_by_chance(silent: Sequence[bool]) -> bool:
    runs = [failed for failed, _ in groupby(silent)]
    if sum(runs) < _FEWEST_APART:
        return False
    failed, reads = sum(silent), len(silent)
    usual = 1 + 2 * failed * (reads - failed) / reads
    spread = sqrt(max((usual - 1) * (usual - 2), 0.0) / (reads - 1))
    return len(runs) > usual - _DEVIATIONS * spread


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
