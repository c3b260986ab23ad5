"""What clients recorded and what the server counted, piece of time by piece of time, and whether their clocks agree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from diagnostics.window.view import Counter, ModelView

# Clients and server count the same requests when their numbers are this close; else others call too.
_SAME_REQUESTS = 0.1
# A mean of twenty is within half of what it stands for; the middle one of three such means survives one that is off.
_PIECE_REQUESTS = 20
FEWEST_PIECES = 3
_PIECES_WANTED = 5
# A clock is looked for in steps of half a piece, and in no more of them: a record of hours is longer than any window.
_MOST_SHIFTS = 400
# Clients saw what the server counted where they waited longer by a smaller part of its time than this: less is not
# worth a change of either, and steps of half a piece tell no more.
_SMALL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInterval:
    """A part of the span: Unix seconds, requests that the server completed, and their mean seconds there."""

    start: float
    end: float
    requests: float
    seconds: float


def pieces_of(view: ModelView, source: str) -> list[ServerInterval]:
    """Return pieces of the span, each long enough for a mean; none where the source counts no requests."""
    found: list[ServerInterval] = []
    start, requests, seconds, steps = None, 0.0, 0.0, view.steps(source)
    everything = sum(step.values.get(Counter.SUCCESS, 0.0) for step in steps)
    enough = max(min(_PIECE_REQUESTS, everything / _PIECES_WANTED), 1.0)
    for step in steps:
        start = step.start if start is None else start
        requests += step.values.get(Counter.SUCCESS, 0.0)
        seconds += step.values.get(Counter.REQUEST_SECONDS, 0.0)
        if requests >= enough:
            found.append(ServerInterval(start=start, end=step.end, requests=requests, seconds=seconds / requests))
            start, requests, seconds = None, 0.0, 0.0
    return found


class ClientCompletions:
    """Answered requests to one model by the Unix seconds at which their answers came, by the clients' clock."""

    def __init__(self, ended: Sequence[tuple[float, float]]) -> None:
        """Take (Unix seconds, seconds taken) of each."""
        ordered = sorted(ended)
        self.ends = [end for end, _ in ordered]
        self._sums = [0.0, *accumulate(seconds for _, seconds in ordered)]

    def beyond(self, pieces: Sequence[ServerInterval], ahead: float = 0.0) -> list[float]:
        """Return how much longer clients waited than the server took, of the pieces in which both count the same.

        Args:
            pieces: those of the server.
            ahead: seconds by which the clients' clock is taken to be ahead of the server's.

        """
        found = []
        for piece in pieces:
            first = bisect_left(self.ends, piece.start + ahead)
            last = bisect_left(self.ends, piece.end + ahead)
            alike = abs(last - first - piece.requests) <= max(_SAME_REQUESTS * piece.requests, 2.0)
            if alike and last > first:
                found.append((self._sums[last] - self._sums[first]) / (last - first) - piece.seconds)
        return found


def calls_of(view: ModelView) -> ClientCompletions:
    """Return the answered requests that clients say they sent to the model or ensemble looked at."""
    model = view.model
    requests = (request for request in view.window.clients if request.ok and request.model == model)
    return ClientCompletions([(request.at + request.seconds, request.seconds) for request in requests])


def is_another_times(pieces: Sequence[ServerInterval], calls: ClientCompletions) -> bool:
    """Return whether a clock that is off explains what clients wait beyond the server's time; False without calls.

    Then there is another time at which they saw just what the server counted. Where its time hardly changes, there is
    none, whatever the clocks show.
    """
    beyond = sorted(calls.beyond(pieces))
    small, fewest = _SMALL * max(piece.seconds for piece in pieces), max(len(pieces) / 2, FEWEST_PIECES)
    if not beyond or beyond[len(beyond) // 2] <= small:
        return False
    return any(_agree(calls.beyond(pieces, ahead), small, fewest) for ahead in _shifts(pieces, calls))


def _agree(beyond: Sequence[float], most: float, fewest: float) -> bool:
    """Return whether enough differences are there, and three in four of them lie within `most` of zero."""
    return len(beyond) >= fewest and 4 * sum(abs(one) <= most for one in beyond) >= 3 * len(beyond)


def _shifts(pieces: Sequence[ServerInterval], calls: ClientCompletions) -> list[float]:
    """Return by how many seconds the clients' clock may be ahead for the records to have pieces in common."""
    least, most = calls.ends[0] - pieces[-1].end, calls.ends[-1] - pieces[0].start
    shortest = min(piece.end - piece.start for piece in pieces)
    step = max(shortest / 2, (most - least) / _MOST_SHIFTS)
    return [least + step * number for number in range(int((most - least) / step) + 1)] if step > 0 else []
