"""Reads side by side: threads are shared and end, and a read that hangs holds up nobody else."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest

from exporters.sources.http import ReadFailure
from exporters.sources.parallel import DeadlineExecutor, Threads


def names_of(threads: Threads, reads: int) -> set[int]:
    """Return the threads that make some reads, each of a source of its own, one after another."""
    executor = [DeadlineExecutor[str, int](5.0, threads) for _ in range(reads)]
    return {one.run({"read": threading.get_ident})["read"].value or 0 for one in executor}


def test_sources_that_are_read_in_turn_share_a_thread() -> None:
    assert len(names_of(Threads(), 50)) <= 3  # the next read may come before the last thread has sat down


def test_a_thread_that_nobody_needs_ends() -> None:
    found: list[threading.Thread] = []
    DeadlineExecutor[str, None](5.0, Threads(idle_seconds=0.0)).run(
        {"read": lambda: found.append(threading.current_thread())}
    )
    found[0].join(5.0)
    assert not found[0].is_alive()


def test_a_read_that_hangs_is_late_alone_and_is_not_begun_twice() -> None:
    go, begun = threading.Event(), []

    def hang() -> str:
        begun.append(1)
        go.wait(10.0)
        return "late"

    executor, threads = DeadlineExecutor[str, str](0.0, Threads()), Threads()
    hung = executor.run({"hangs": hang})["hangs"]
    again = executor.run({"hangs": hang})["hangs"]
    beside = DeadlineExecutor[str, str](5.0, threads).run({"sound": lambda: "answer"})["sound"]
    go.set()
    assert (hung.value, again.value, beside.value) == (None, None, "answer")
    assert hung.failure is not None
    assert "no complete answer" in hung.failure.reason
    assert len(begun) == 1


def test_a_failure_is_an_outcome_and_a_bug_is_raised() -> None:
    def fail(error: Exception) -> str:
        raise error

    executor = DeadlineExecutor[str, str](5.0, Threads())
    failure = ReadFailure("closed")
    assert executor.run({"a": partial(fail, failure)})["a"].failure is failure
    with pytest.raises(ZeroDivisionError):
        executor.run({"a": partial(fail, ZeroDivisionError())})


def test_a_forked_process_has_threads_of_its_own() -> None:
    DeadlineExecutor[str, int](5.0).run({"read": os.getpid})
    child = os.fork()
    if not child:
        read = DeadlineExecutor[str, int](5.0).run({"read": os.getpid})["read"].value
        os._exit(0 if read == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
