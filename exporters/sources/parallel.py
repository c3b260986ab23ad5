"""Reads that run side by side, each with a deadline that holds even where a library's own does not.

A name server that hangs and a server that sends one byte a second both escape a socket's timeout. So each
read has a thread of its own, which is left behind when its time is up: it is a daemon, and no second read of
the name is begun while it is at work. A thread that is done waits for the next round: starting one costs more
than most reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from exporters.sources.clock import CLOCK
from exporters.sources.failure import ReadFailure

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# What a read may take beyond its own timeout before it is given up: its own message is the better one.
GRACE = 0.5
# Longer than the usual interval between rounds, and short enough that what is read no more leaves no thread behind.
_IDLE_SECONDS = 10.0
Inbox = SimpleQueue[tuple[K, "Outcome[V] | BaseException"]]
Deliver = Callable[["Outcome[V] | BaseException"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[V]):
    """What a read gave, and when it ended.

    Attributes:
        value: what was read; None when it failed.
        failure: why it failed; None when it did not.
        at: wall time of the end, Unix seconds.
        mono: a steady clock's seconds at the end.
        took: seconds it took.

    """

    value: V | None
    failure: ReadFailure | None
    at: float
    mono: float
    took: float


class Lanes(Generic[K, V]):
    """Runs named reads side by side, at most one of each name at a time."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._workers: dict[K, _Worker[V]] = {}

    def run(self, reads: Mapping[K, Callable[[], V]]) -> dict[K, Outcome[V]]:
        """Return the outcome of every read, in the order given, after at most the timeout and a little grace.

        Any exception of a read but ReadFailure is a bug, and is raised here.
        """
        begun = time.monotonic()
        inbox: Inbox[K, V] = SimpleQueue()
        waiting = {key for key, read in reads.items() if self._start(key, read, inbox)}
        done: dict[K, Outcome[V]] = {}
        deadline = begun + self._timeout + GRACE
        while waiting:
            try:
                key, outcome = inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            if isinstance(outcome, BaseException):
                raise outcome
            waiting.discard(key)
            done[key] = outcome
        return {key: done.get(key) or self._late(begun) for key in reads}

    def _start(self, key: K, read: Callable[[], V], inbox: Inbox[K, V]) -> bool:
        while True:
            worker = self._workers.get(key) or self._workers.setdefault(key, _Worker())
            if worker.take(read, lambda outcome: inbox.put((key, outcome))):
                return True
            if not worker.ended:
                return False
            del self._workers[key]

    def _late(self, begun: float) -> Outcome[V]:
        failure = ReadFailure(f"no complete answer within {self._timeout:g} s")
        now = time.monotonic()
        return Outcome(value=None, failure=failure, at=CLOCK.now(), mono=now, took=now - begun)


class _Worker(Generic[V]):
    """A thread that makes one read at a time, and ends when none came for a while.

    Attributes:
        ended: whether it takes no more reads.

    """

    def __init__(self) -> None:
        self.ended = False
        self._busy = False
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[tuple[Callable[[], V], Deliver[V]]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def take(self, read: Callable[[], V], deliver: Deliver[V]) -> bool:
        """Return whether the read is taken: not while another one is at work, nor after the end."""
        with self._lock:
            if self._busy or self.ended:
                return False
            self._busy = True
        self._jobs.put((read, deliver))
        return True

    def _work(self) -> None:
        while not self.ended:
            try:
                read, deliver = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    self.ended = not self._busy
                continue
            outcome = _settle(read)
            # Free before it is told: the next round may begin at once.
            with self._lock:
                self._busy = False
            deliver(outcome)


def _settle(read: Callable[[], V]) -> Outcome[V] | BaseException:
    begun = time.monotonic()
    value: V | None = None
    failure: ReadFailure | None = None
    try:
        value = read()
    except ReadFailure as error:
        failure = error
    except BaseException as error:  # noqa: BLE001 - carried to the thread that asked, which raises it
        return error
    now = time.monotonic()
    return Outcome(value=value, failure=failure, at=CLOCK.now(), mono=now, took=now - begun)
