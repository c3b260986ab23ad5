"""A bound on how long work in the main thread may take, whatever it does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTimeError(BaseException):
    """Work was ended at its deadline. No Exception, so that nothing in the work itself takes it for a failure."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End what is inside after so many seconds, or at once on Ctrl-C; in other threads than the main one do nothing.

    A thread's work cannot be ended from outside, and would go on beside the load that comes next; a process would
    take a second to start. A signal interrupts Python between two instructions.

    Raises:
        OutOfTimeError: it is over.
        KeyboardInterrupt: Ctrl-C was pressed; an event loop would have noticed only after the work.

    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_: int, __: FrameType | None) -> None:
        if armed:
            raise OutOfTimeError

    armed = True
    handlers = {
        signal.SIGALRM: signal.signal(signal.SIGALRM, over),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    before = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, *before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
