"""Puts load on a server, and does what is to be done meanwhile.

Requests of the open-loop patterns are sent when they are due, whether or not earlier ones were answered, so
that a slow server is not spared. How late each was sent is kept: a delay that the client itself caused must
not be mistaken for the server's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diagnostics.demo.load import LoadProfile, LoadProgress, SentRequest

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to do `at` seconds after the load's start, such as loading a new version."""

    at: float
    do: Callable[[], None]


def run_load(
    url: str,
    profile: LoadProfile,
    *,
    actions: Sequence[Action] = (),
    progress: Callable[[LoadProgress], None] | None = None,
    stop: threading.Event | None = None,
    max_in_flight: int = 256,
    request_timeout: float = 30.0,
) -> list[SentRequest]:
    """Put the load on the server at `url`, and return what the client saw, in order of sending.

    Blocks until every request is answered or timed out. Requests are sent from a thread of their own:
    neither `actions` nor `progress`, which run in the caller's, make them late.

    Args:
        url: the server's HTTP endpoint.
        profile: the load.
        actions: what to do meanwhile; an exception of one ends the run and comes out of this call.
        progress: is called several times a second.
        stop: ends the run early once it is set, from whatever thread.
        max_in_flight: requests that are out at once at most; a request over it is sent late.
        request_timeout: seconds after which an unanswered request counts as failed, with code 0.

    Raises:
        UsageError: the extra `demo` is not installed, or the server has no such model.
        CollectError: the server does not answer.

    """
    # tritonclient takes a quarter of a second to import; only who sends load pays for it.
    from diagnostics.demo.client import LoadClient

    sender = LoadClient(url, profile, max_in_flight=max_in_flight, request_timeout=request_timeout)
    thread = threading.Thread(target=sender.run, name="load", daemon=True)
    thread.start()
    try:
        pending = sorted(actions, key=lambda action: action.at)
        while thread.is_alive() and not (stop is not None and stop.is_set()):
            _accompany(sender.progress(), pending, progress)
            thread.join(_POLL_SECONDS)
    finally:
        sender.stop()
        thread.join()
    return sender.result()


def _accompany(state: LoadProgress, pending: list[Action], progress: Callable[[LoadProgress], None] | None) -> None:
    while pending and state.elapsed >= pending[0].at:
        pending.pop(0).do()
    if progress is not None:
        progress(state)
