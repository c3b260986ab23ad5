"""Follows the board for all who wait: one thread, however many wait for news."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from diagnostics.service.state import LiveState, StateBoard

log = logging.getLogger(__name__)
# Between two tellings: with hundreds of servers the board changes many times a second.
PAUSE = 1.0
Follow = Callable[[LiveState], None]


class Live:
    """Reports changes of the board at most once in `PAUSE` seconds.

    Attributes:
        state: the newest that was reported.
        ended: whether the service is going away; nobody waits any more.
        waiting: how many wait for news right now.

    """

    def __init__(
        self, board: StateBoard, followers: Sequence[Follow] = (), ticks: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Begin with what the board shows.

        Args:
            board: what is followed.
            followers: called with each new state after those who wait have it.
            ticks: called at least every other second, whether or not anything changed.

        """
        self.state, self.ended, self.waiting = board.read(), False, 0
        self._board, self._followers, self._ticks = board, followers, ticks
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        """Begin to follow. To be called in the event loop whose coroutines will wait."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def end(self) -> None:
        """Send all away who wait, from any thread."""
        self.ended = True
        self._stopped.set()
        self._wake()

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join()

    async def newer_than(self, version: int, timeout: float) -> LiveState:
        """Return the newest state as soon as its version is not `version`, else what there is after `timeout` seconds.

        A version from before a restart may be larger than any there is, and must not be waited for.
        """
        self.waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while self.state.version == version and not self.ended:
                        await self._news.wait()
        finally:
            self.waiting -= 1
        return self.state

    def _run(self) -> None:
        version = -1
        while not self._stopped.is_set():
            state = self._board.wait(version, PAUSE) if version >= 0 else self._board.read()
            if state.version != version:
                version = state.version
                self.state = state
                self._wake()
                self._call([partial(follow, state) for follow in self._followers])
            self._call(self._ticks)
            self._stopped.wait(PAUSE)

    def _call(self, calls: Sequence[Callable[[], None]]) -> None:
        for call in calls:
            try:
                call()
            except Exception:
                # One page that cannot be rendered must not end the news of all others.
                log.exception("following the board")

    def in_loop(self, call: Callable[[], None]) -> None:
        """Have the event loop call something soon; nothing once it has ended."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                self._loop.call_soon_threadsafe(call)

    def _wake(self) -> None:
        self.in_loop(self._notify)

    def _notify(self) -> None:
        waiting, self._news = self._news, asyncio.Event()
        waiting.set()
