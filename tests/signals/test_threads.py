"""How busy the threads of the server's own process are that execute no model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diagnostics.signals.callers import FRONTEND_BUSY, FRONTEND_CPU_WAIT
from diagnostics.signals.signal import Missing, Reading
from diagnostics.window.window import Window
from tests.builders import Stage, SyntheticTriton, model_config, view_of
from tests.builders_machine import Json, machine_window

Threads = Callable[[float], list[tuple[int, float, float]]]


def seen(threads: Threads | None, backend: str = "python") -> Window:
    """Return a server with a model that executes for 0.4 of the time, and (thread, CPU, run delay) at each second."""
    triton = SyntheticTriton(
        models=(Stage("safety", rate=10.0, execution=0.04, config=model_config("safety", backend=backend)),)
    )

    def host(at: float) -> Json:
        rows = [{"tid": t, "cpu_seconds": c, "run_delay_seconds": d} for t, c, d in threads(at)] if threads else None
        return {} if rows is None else {"server_threads": rows}

    return machine_window(triton, hosts=host)


def busy(window: Window) -> Reading:
    return FRONTEND_BUSY.read(view_of(window, None, None))


def one_of_two(at: float) -> list[tuple[int, float, float]]:
    return [(8, 900.0 + 0.05 * at, 0.0), (9, 1.0 + 0.6 * at, 0.2 * at)]


def test_the_thread_counts_that_had_most_to_do_in_the_span_whatever_it_did_before() -> None:
    window = seen(one_of_two)

    assert busy(window).value == pytest.approx(0.8)
    assert FRONTEND_CPU_WAIT.read(view_of(window, None, None)).value == pytest.approx(0.25)


def test_what_models_execute_in_the_servers_process_is_taken_off() -> None:
    reading = busy(seen(one_of_two, backend="onnxruntime"))

    assert reading.value == pytest.approx(0.4, abs=0.02)
    assert reading.high == pytest.approx(0.8)


def test_a_number_that_another_thread_got_is_no_thread() -> None:
    assert busy(seen(lambda at: [(9, 50.0 if at < 30 else 2.0, 0.0)])).value == 0.0


def test_a_thread_that_was_there_for_a_moment_says_nothing_of_the_span() -> None:
    assert busy(seen(lambda at: [(9, at, 0.0)] if at > 50 else [])).value == 0.0


def test_no_noted_threads_is_idle_and_a_recorder_that_notes_none_is_unknown() -> None:
    assert busy(seen(lambda _: [])).value == 0.0
    assert FRONTEND_CPU_WAIT.read(view_of(seen(lambda _: []), None, None)).missing is Missing.IDLE
    assert busy(seen(None)).missing is Missing.NOT_EXPORTED
