"""An engine that batches in flight: requests join and leave between iterations."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import factors
from diagnostics.tuning.simulation.instances import Execution
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import EngineModel
from diagnostics.tuning.simulation.sharing import SharedComputing, SharedExecution
from diagnostics.tuning.simulation.visits import SimulatedVisit

# An arrival that coincides with the end of an iteration is in time to join the next one.
_ROUNDING = 1e-9


class InFlight:
    """The running batch, and those that wait for a slot, for the cache or for the next iteration.

    Requests join first come, first served: one that does not fit holds up those behind it. The cache is reserved for
    the whole request as it joins (TensorRT-LLM's GUARANTEED_NO_EVICT). The token budget counts a token for each
    running request and the prompt of each that joins; one request may always join an empty batch. Iterations between
    two changes of the batch are alike and are passed over in one event; on a resource that they share they are one
    execution.
    """

    __slots__ = (
        "_at",
        "_computing",
        "_draw",
        "_each",
        "_engine",
        "_iteration",
        "_log",
        "_order",
        "_queue",
        "_rng",
        "_run",
        "_running",
        "_share",
        "_since",
        "_ticket",
    )

    def __init__(
        self,
        clock: EventQueue,
        log: ModelLog,
        engine: EngineModel,
        rng: Random,
        computing: SharedComputing | None = None,
    ) -> None:
        """Begin idle; `computing` is what iterations are slowed on, None where they share nothing."""
        self._computing = computing
        self._at, self._log, self._engine, self._rng = clock.at, log, engine, rng
        self._draw = factors(engine.iterations_scv, rng)
        self._queue: deque[SimulatedVisit] = deque()
        # By the iteration after which each leaves.
        self._running: list[tuple[int, int, SimulatedVisit, float, int | None]] = []
        self._order = count().__next__
        self._share: SharedExecution | None = None
        self._iteration = self._run = self._ticket = 0
        self._since = self._each = 0.0

    def join(self, now: float, visit: SimulatedVisit) -> None:
        """Queue a visit; an idle engine begins an iteration at once, a busy one takes it after the present one."""
        self._log.joined(now)
        self._queue.append(visit)
        if not self._running:
            self._begin(now)
        elif self._engine.continuous and self._room(0, len(self._running)):
            self._shorten(now)

    def _shorten(self, now: float) -> None:
        """Look at the batch again at the end of the iteration under way."""
        if self._computing is None or self._share is None:
            worked = now - self._since
        else:
            worked = self._computing.done(now, self._share)
        done = max(ceil(worked / self._each - _ROUNDING), 1)
        if done < self._run:
            self._plan(now, done)

    def _plan(self, now: float, iterations: int) -> None:
        """End the run of like iterations after so many; an earlier plan is void."""
        self._run = iterations
        if self._computing is not None:
            self._compute(now, self._computing)
            return
        self._ticket += 1
        self._at(max(self._since + iterations * self._each, now), self._ended, self._ticket)

    def _compute(self, now: float, computing: SharedComputing) -> None:
        work = self._run * self._each
        if self._share is None:
            self._share = computing.run(now, Execution(now, (), work, None), self._computed)
        else:
            computing.cut(now, self._share, work)

    def _ended(self, now: float, ticket: int) -> None:
        """End a run of like iterations: some leave, some join."""
        if ticket != self._ticket:
            return
        self._log.iterated(self._since, self._run, len(self._running))
        self._iteration += self._run
        left = []
        while self._running and self._running[0][0] <= self._iteration:
            left.append(heappop(self._running))
        if not self._running:
            self._log.running.leave(now)
        if self._queue or self._running:
            self._begin(now)
        for _, _, visit, joined, noted in left:
            if noted is not None:
                self._log.served(noted, 1, now - joined)
            visit.stage.done(now, visit)

    def _begin(self, now: float) -> None:
        if not self._running:
            self._log.running.enter(now)
        joined = self._admit(now)
        engine = self._engine
        self._since = now
        self._each = engine.iteration_seconds + engine.iteration_seconds_per_request * len(self._running)
        # What joins lengthens this iteration only.
        self._each += engine.prefill_seconds * joined
        self._plan(now, 1 if joined else self._running[0][0] - self._iteration)

    def _computed(self, now: float, _: Execution) -> None:
        self._share = None
        self._ended(now, self._ticket)

    def _admit(self, now: float) -> int:
        joined, before = 0, len(self._running)
        if before and not self._engine.continuous:
            return 0
        while self._queue and self._room(joined, before):
            visit = self._queue.popleft()
            noted = self._log.noted(now)
            self._log.taken(now, visit.joined, 0.0)
            last = self._iteration + self._length()
            heappush(self._running, (last, self._order(), visit, now, noted))
            joined += 1
        return joined

    def _room(self, joined: int, before: int) -> bool:
        engine, running = self._engine, before + joined
        if not running:
            return True
        if running >= engine.slots:
            return False
        if engine.cache_tokens is not None and (running + 1) * engine.tokens_per_request > engine.cache_tokens:
            return False
        tokens = before + (joined + 1) * engine.prefill_tokens
        return engine.token_budget is None or tokens <= engine.token_budget

    def _length(self) -> int:
        """Draw a request's iterations: whole ones, at least 1, of the given mean."""
        mean = self._engine.iterations * (self._draw() if self._draw else 1.0)
        whole = int(mean)
        return max(whole + (self._rng.random() < mean - whole), 1)
