"""Questions to NVML: each can be refused on its own, and each costs processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
# What no later query of the same kind will change: the card, the driver or its setup does not have it.
_FOR_GOOD = frozenset({"Not Supported", "Function Not Found", "unknown to this pynvml"})
# Share of one core that each of the dear queries may take of a card; one that costs more is made less often: on an
# H100 energy each three minutes, processes' utilization, GPM and processes each 5 or 6 s. Measured there (driver 580),
# once a second: energy 3.6 ms (as a field value too), processes' utilization 1.5 ms, GPM
# 1.4 ms, processes 0.22 ms, MIG mode 0.2 ms. All others take 0.2 ms together, so they are made each time, one by one:
# nvmlDeviceGetFieldValues would save 0.01 ms, and lose the reason of each refusal.
_SHARES: Mapping[str, float] = {
    "process_utilization": 0.00025,
    "gpm": 0.00025,
    "mig_instances": 0.0005,
    "processes": 0.00004,
    "health": 0.00002,
    "total_energy_mj": 0.00002,
    "layout": 0.00001,
}


class QueryBudget:
    """Says which queries are due: one that took t seconds of processor time rests for t ÷ its share of a core."""

    def __init__(self, now: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.thread_time) -> None:
        self._now, self._used = now, used
        self._due: dict[str, float] = {}

    def at_once(self, key: str) -> None:
        """Make the query due: something happened that it tells of."""
        self._due.pop(key, None)

    def spend(self, key: str, call: Callable[[], T]) -> T | None:
        """Return what the call returns; None while it rests."""
        if self._now() < self._due.get(key, 0.0):
            return None
        before = self._used()
        try:
            return call()
        finally:
            # A tenth of slack: a sample that comes a little early is not worth a whole interval.
            self._due[key] = self._now() + 0.9 * (self._used() - before) / _SHARES[key]


class Questions:
    """Asks NVML about one card or one part of it, and keeps why an answer is missing.

    Attributes:
        nvml: the library.
        errors: why an answer is missing in this sample, by the key of the answer.

    """

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.errors: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a sample: what was refused for good stays refused."""
        self.errors = dict(self._refused)

    def ask(self, key: str, query: str, *arguments: object) -> Any:
        """Return the answer, bytes as text; None when it is refused: by an old card, by MIG, for want of rights."""
        if key in self._refused:
            return None
        call: Callable[..., Any] | None = getattr(self.nvml, query, None)
        if call is None:
            self.refuse(key, "unknown to this pynvml")
            return None
        try:
            value = call(*arguments)
        except self.nvml.NVMLError as error:
            self.refuse(key, str(error))
            return None
        return value.decode() if isinstance(value, bytes) else value

    def refuse(self, key: str, reason: str) -> None:
        """Note why the answer is missing; a reason that will not change is the last time it is asked."""
        self.errors[key] = reason
        if reason in _FOR_GOOD:
            self._refused[key] = reason
