"""Puts load on a server, and does what is to be done meanwhile.

Requests of the open-loop patterns are sent when they are due, whether or not earlier ones were answered, so
that a slow server is not spared. How late each was sent is kept: a delay that the client itself caused must
not be mistaken for the server's.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diagnostics.errors import DiagError
from diagnostics.loadgen.inputs import Config, kinds_of, make_requests
from diagnostics.loadgen.load import LoadProfile, LoadProgress, Pattern, SentRequest, schedule
from diagnostics.loadgen.pacing import Pacer, event_loop
from diagnostics.loadgen.repository import configuration
from diagnostics.loadgen.target import TargetOptions, endpoint_of, transport_of
from diagnostics.loadgen.transport import Reads, Values
from exporters.sources.access import SourceOptions

_POLL_SECONDS = 0.2
# Words of a prompt, and prompts of each length.
_LENGTHS = range(16, 49, 4)
_OF_EACH = 8


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
    sender = _Sender(url, profile, max_in_flight, request_timeout)
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


class _Sender:
    """One run of a load. `run` blocks its thread; the other methods may be called from another one."""

    def __init__(self, url: str, profile: LoadProfile, max_in_flight: int, timeout: float) -> None:
        self._profile = profile
        self._wanted = TargetOptions(max_tokens=profile.max_tokens, timeout=timeout, connections=max_in_flight)
        self._endpoint = endpoint_of(url, self._wanted)
        self._pacer: Pacer | None = None
        self._stopped = False
        self._failure: DiagError | None = None
        self._clock = time.time() - time.perf_counter()

    def run(self) -> None:
        """Send the load, and keep a failure to start for `result`."""
        try:
            with asyncio.Runner(loop_factory=event_loop) as runner:
                runner.run(self._send())
        except DiagError as error:
            self._failure = error

    async def _send(self) -> None:
        profile, options = self._profile, SourceOptions()
        _, config = configuration(self._endpoint, options, profile.model)
        transport = transport_of(self._endpoint, options)
        try:
            values = _prompts(config, profile)
            transport.prepare(profile.model, values, kinds_of(config), Reads())
            self._pacer = Pacer(
                transport=transport,
                variants=len(values),
                seconds=profile.duration,
                clients=profile.concurrency or self._endpoint.connections,
                patient=True,
            )
            if not self._stopped:
                await self._pacer.run(None if profile.pattern is Pattern.CLOSED else schedule(profile))
        finally:
            await transport.close()

    def stop(self) -> None:
        """Send nothing more; `run` then returns once what is out was answered."""
        self._stopped = True
        if self._pacer is not None:
            self._pacer.stop()

    def progress(self) -> LoadProgress:
        """Return how far the run is."""
        return self._pacer.progress() if self._pacer is not None else LoadProgress(elapsed=0.0, answered=0, errors=0)

    def result(self) -> list[SentRequest]:
        """Return the records in order of sending; raises the failure to start."""
        if self._failure is not None:
            raise self._failure
        return self._pacer.records(self._profile.model, self._clock) if self._pacer is not None else []


def _prompts(config: Config, profile: LoadProfile) -> list[Values]:
    """Return requests of several lengths in random order; equal seeds give equal ones."""
    found = [
        values
        for length in _LENGTHS
        for values in make_requests(
            config, length=length, max_tokens=profile.max_tokens, seed=profile.seed, streaming=False
        ).values[:_OF_EACH]
    ]
    random.Random(profile.seed).shuffle(found)  # noqa: S311
    return found
