"""How a long measurement is ended by the user, or by a supervisor, without losing what it has measured."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Settle = Callable[[], None]
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[Settle]:
    """Let SIGTERM, and the end of the terminal, do what Ctrl-C does; yield what lets none do anything from then on.

    Whoever ends a measurement presses Ctrl-C more than once: the second one shall not cost the report of it. Signals
    come to the main thread alone; in others nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    signal.signal(signal.SIGTERM, lambda _, __: _interrupt())
    if before[signal.SIGHUP] is not signal.SIG_IGN:  # nohup lets it go on
        signal.signal(signal.SIGHUP, lambda _, __: _interrupt())
    try:
        yield _settle
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt() -> None:
    # A shell starts what it runs in the background with Ctrl-C ignored; SIGTERM is meant for it all the same.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _settle() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
