"""An engine that batches in flight: requests join and leave between iterations."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf
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


class EngineRules:
    """Who joins the running batch, for how many iterations, and how long these take."""

    __slots__ = ("_draw", "_engine", "_rng", "continuous")

    def __init__(self, engine: EngineModel, rng: Random) -> None:
        self._engine, self._rng, self.continuous = engine, rng, engine.continuous
        self._draw = factors(engine.iterations_scv, rng)

    def room(self, joined: int, before: int) -> bool:
        """Return whether one more joins a batch of `before` requests and `joined` that join now."""
        engine, running = self._engine, before + joined
        if not running:
            return True
        if running >= engine.slots:
            return False
        if engine.cache_tokens is not None and (running + 1) * engine.tokens_per_request > engine.cache_tokens:
            return False
        tokens = before + (joined + 1) * engine.prefill_tokens
        return engine.token_budget is None or tokens <= engine.token_budget

    def admit(self, running: list[tuple[int, int]], iteration: int, queued: Sequence[int]) -> int:
        """Let those join who wait in order and have room, by the iteration after which each leaves; return how many."""
        before = len(running)
        for number, waiting in enumerate(queued):
            if not self.room(number, before):
                return number
            heappush(running, (iteration + self.length(), waiting))
        return len(queued)

    def length(self) -> int:
        """Draw a request's iterations: whole ones, at least 1, of the given mean."""
        mean = self._engine.iterations * (self._draw() if self._draw else 1.0)
        whole = int(mean)
        return max(whole + (self._rng.random() < mean - whole), 1)

    def seconds(self, running: int, joined: int) -> float:
        """Return the seconds of an iteration of so many requests; those that join lengthen the first one only."""
        engine = self._engine
        return (
            engine.iteration_seconds + engine.iteration_seconds_per_request * running + engine.prefill_seconds * joined
        )

    def iterations_until(self, worked: float, each: float) -> int:
        """Return the iterations that are over, or end next, after so many seconds of iterations of `each`."""
        return max(ceil(worked / each - _ROUNDING), 1)


def run_alone(engine: EngineModel, rng: Random, joined: Sequence[float], log: ModelLog, end: float) -> Sequence[float]:
    """Let an engine that shares nothing take requests that join at ascending seconds, as `InFlight` does.

    Returns:
        When each is answered, in seconds; infinity where that is not before the end.

    """
    rules, began, left = EngineRules(engine, rng), list[float](), [inf] * len(joined)
    running: list[tuple[int, int]] = []  # by the iteration after which each leaves
    runs: list[tuple[float, int, int]] = []
    comes = [*joined, inf]  # nobody after the last
    now, iteration, queued, taken, size = 0.0, 0, 0, 0, 0
    while size or taken < len(joined):
        if not size:
            if queued == taken:
                now, queued = comes[queued], queued + 1
            log.running.enter(now)
        before = size
        if taken < queued and (rules.continuous or not before):
            size += rules.admit(running, iteration, range(taken, queued))
            taken += size - before
            began += [now] * (size - before)
        each = rules.seconds(size, size - before)
        count = 1 if size > before else running[0][0] - iteration
        ends = now + count * each
        if count > 1 and comes[queued] < ends and rules.continuous and rules.room(0, size):
            count = min(rules.iterations_until(comes[queued] - now, each), count)
            ends = now + count * each
        if ends >= end:
            break
        runs.append((now, count, size))
        now, iteration = ends, iteration + count
        while comes[queued] <= now:
            queued += 1
        size -= _leave(running, iteration, left, now)
        if not size:
            log.running.leave(now)
    for begun, count, size in runs:
        log.iterated(begun, count, size)
    began += [inf] * (len(joined) - taken)
    log.passed(joined, began, [begin if ended == inf else ended for begin, ended in zip(began, left, strict=True)])
    return left


def _leave(running: list[tuple[int, int]], iteration: int, left: list[float], now: float) -> int:
    """Note who leaves after an iteration, and return how many."""
    before = len(running)
    while running and running[0][0] <= iteration:
        left[heappop(running)[1]] = now
    return before - len(running)


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
        "_each",
        "_iteration",
        "_log",
        "_order",
        "_queue",
        "_rules",
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
        self._at, self._log, self._rules = clock.at, log, EngineRules(engine, rng)
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
        elif self._rules.continuous and self._rules.room(0, len(self._running)):
            self._shorten(now)

    def _shorten(self, now: float) -> None:
        """Look at the batch again at the end of the iteration under way."""
        if self._computing is None or self._share is None:
            worked = now - self._since
        else:
            worked = self._computing.done(now, self._share)
        done = self._rules.iterations_until(worked, self._each)
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
        self._since = now
        self._each = self._rules.seconds(len(self._running), joined)
        self._plan(now, 1 if joined else self._running[0][0] - self._iteration)

    def _computed(self, now: float, _: Execution) -> None:
        self._share = None
        self._ended(now, self._ticket)

    def _admit(self, now: float) -> int:
        joined, before = 0, len(self._running)
        if before and not self._rules.continuous:
            return 0
        while self._queue and self._rules.room(joined, before):
            visit = self._queue.popleft()
            noted = self._log.noted(now)
            self._log.taken(now, visit.joined, 0.0)
            last = self._iteration + self._rules.length()
            heappush(self._running, (last, self._order(), visit, now, noted))
            joined += 1
        return joined
