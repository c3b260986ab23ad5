"""Reads that run side by side, each with a deadline that holds even where a library's own does not.

A name server that hangs and a server that sends one byte a second both escape a socket's timeout. So each
read has a thread to itself, which is left behind when its time is up: it is a daemon, and no second read of
the name is begun while it is at work. Threads are shared by all who read: one that is done takes the next read,
whosoever it is, as starting one costs more than most reads, and hundreds of servers need no more of them than
reads are under way at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from exporters.sources.http import ReadFailure
from exporters.sources.schedule import CLOCK

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# What a read may take beyond its own timeout before it is given up: its own message is the better one.
GRACE = 0.5
# How long a thread waits for work: whoever reads once a minute still finds it, and a crowd of the start is soon gone.
_IDLE_SECONDS = 90.0
Inbox = SimpleQueue[tuple[K, "ReadOutcome[V] | BaseException"]]
Work = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOutcome(Generic[V]):
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


class Threads:
    """Threads for work that may hang: one that waits takes the next, and a new one is started where none waits.

    The one that waited least is taken first, so that those which are needed no more come to their end.
    """

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Begin with none.

        Args:
            idle_seconds: how long a thread waits for work before it ends.

        """
        self._idle_seconds = idle_seconds
        self.forget()

    def forget(self) -> None:
        """Know of no thread any more: in a process that was forked there are none."""
        self._lock = threading.Lock()
        self._waiting: list[SimpleQueue[Work]] = []

    def run(self, work: Work) -> None:
        """Have a thread do this, which must not raise."""
        with self._lock:
            found = self._waiting.pop() if self._waiting else None
        if found is not None:
            found.put(work)
        else:
            threading.Thread(target=self._live, args=(work,), name="read", daemon=True).start()

    def _live(self, work: Work | None) -> None:
        mine: SimpleQueue[Work] = SimpleQueue()
        while work is not None:
            work()
            work = None  # what it held is not to be kept while waiting
            with self._lock:
                self._waiting.append(mine)
            work = self._next(mine)

    def _next(self, mine: SimpleQueue[Work]) -> Work | None:
        try:
            return mine.get(timeout=self._idle_seconds)
        except Empty:
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    return None
            return mine.get()  # it was chosen in this very moment


_THREADS = Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_THREADS.forget)


class DeadlineExecutor(Generic[K, V]):
    """Runs named reads side by side, at most one of each name at a time."""

    def __init__(self, timeout: float, threads: Threads = _THREADS) -> None:
        """Begin with no reads.

        Args:
            timeout: seconds that each may take.
            threads: do the work; those of the process by default.

        """
        self._timeout, self._threads = timeout, threads
        self._lock = threading.Lock()
        self._busy: set[K] = set()

    def run(self, reads: Mapping[K, Callable[[], V]]) -> dict[K, ReadOutcome[V]]:
        """Return the outcome of every read, in the order given, after at most the timeout and a little grace.

        Any exception of a read but ReadFailure is a bug, and is raised here.
        """
        begun = time.monotonic()
        inbox: Inbox[K, V] = SimpleQueue()
        waiting = {key for key, read in reads.items() if self._start(key, read, inbox)}
        done: dict[K, ReadOutcome[V]] = {}
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
        with self._lock:
            if key in self._busy:
                return False
            self._busy.add(key)
        self._threads.run(lambda: self._work(key, read, inbox))
        return True

    def _work(self, key: K, read: Callable[[], V], inbox: Inbox[K, V]) -> None:
        outcome = _settle(read)
        # Free before it is announced: the next round may begin at once.
        with self._lock:
            self._busy.discard(key)
        inbox.put((key, outcome))

    def _late(self, begun: float) -> ReadOutcome[V]:
        failure = ReadFailure(f"no complete answer within {self._timeout:g} s")
        now = time.monotonic()
        return ReadOutcome(value=None, failure=failure, at=CLOCK.now(), mono=now, took=now - begun)


def _settle(read: Callable[[], V]) -> ReadOutcome[V] | BaseException:
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
    return ReadOutcome(value=value, failure=failure, at=CLOCK.now(), mono=now, took=now - begun)
