"""What does not work in the service itself, from its first failure until it works again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from diagnostics.units import Unit
from diagnostics.wire.secret_shapes import scrub_shapes

# What fails in so many ways at once needs no longer list.
MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFault:
    """Something that fails. Times are Unix seconds.

    Attributes:
        what: what is being tried, as in `writing the history`.
        reason: why it failed last, in one line.
        since: when it failed first.
        last: when it failed last.
        times: how often it failed.

    """

    what: str
    reason: str
    since: float
    last: float
    times: int = 1

    def told(self, now: float) -> str:
        """Return it as a line at Unix second `now`."""
        lasted = Unit.SECONDS.show(max(0.0, now - self.since))
        often = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.what} fails ({often} in {lasted}): {self.reason}"


class ServiceFaults:
    """Those that last, by what fails. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._lasting: dict[str, ServiceFault] = {}

    def failed(self, what: str, reason: str) -> None:
        """Note a failure; whatever fails beyond `MOST` at once is not noted."""
        now, reason = self._clock(), scrub_shapes(reason)
        with self._lock:
            known = self._lasting.get(what)
            if known is not None:
                self._lasting[what] = replace(known, reason=reason, last=now, times=known.times + 1)
            elif len(self._lasting) < MOST:
                self._lasting[what] = ServiceFault(what=what, reason=reason, since=now, last=now)

    def works(self, what: str) -> None:
        """Note that something works; costs next to nothing while it did before."""
        if what in self._lasting:
            with self._lock:
                self._lasting.pop(what, None)

    def lasting(self) -> list[ServiceFault]:
        """Return what fails now, the oldest first."""
        with self._lock:
            return sorted(self._lasting.values(), key=lambda one: (one.since, one.what))
