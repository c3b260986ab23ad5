"""An engine's iterations, simulated: which requests decode, whose prompt is read, who waits for a slot or for cache.

Each iteration decodes one token of every running request and reads as many tokens of prompts as its budget leaves.
Requests join between iterations, first come, first served. The schedulers of TensorRT-LLM, vLLM and SGLang are one loop
with two options: for how much of an answer cache is kept free, and whether iterations read prompts and decode at once.
Iterations between two changes of the batch are alike, and are passed over together.

Sources: Yu et al. 2022, "Orca" (iteration-level scheduling); TensorRT-LLM, `capacityScheduler.cpp`; vLLM,
`v1/core/sched/scheduler.py`; SGLang, `managers/scheduler.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, inf
from random import Random

from diagnostics.tuning.simulation.clock import Endless

# Steps of a run, alike iterations being one: four thousand requests take some four each, and no run lasts for seconds.
MOST_STEPS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPolicy:
    """How an engine admits requests to its KV cache.

    Attributes:
        name: as its documentation calls it.
        reserved: share of an answer's tokens for which cache must be free when the request starts: 1 never evicts, 0
            admits what the prompt fits into, and puts the newest request back where the cache runs out.
        mixed: whether an iteration reads prompts and decodes; else it decodes nothing while it reads.

    """

    name: str
    reserved: float
    mixed: bool = True


GUARANTEED_NO_EVICT = SchedulerPolicy(name="guaranteed_no_evict", reserved=1.0)
MAX_UTILIZATION = SchedulerPolicy(name="max_utilization", reserved=0.0)
VLLM = SchedulerPolicy(name="preemption", reserved=0.0)
# A new token ratio of 0.7 that decays to 14 % of itself while nothing is retracted.
SGLANG = SchedulerPolicy(name="retraction", reserved=0.7 * 0.14, mixed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What bounds an iteration.

    Attributes:
        slots: requests that run at once; infinity for no limit.
        cache_tokens: tokens that the KV cache holds; infinity for no limit.
        block_tokens: tokens of a block: a request leaves half of one empty on average.
        token_budget: tokens of an iteration, one for each request that decodes; infinity for no limit.
        chunked: whether a prompt may be read in parts.
        policy: how requests are admitted to the cache.

    """

    slots: float = inf
    cache_tokens: float = inf
    block_tokens: float = 1.0
    token_budget: float = inf
    chunked: bool = True
    policy: SchedulerPolicy = VLLM


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationCost:
    """Seconds of an iteration, the sum of these.

    Attributes:
        base: of each iteration.
        per_request: of each request that decodes.
        per_held: of each token that requests hold in the KV cache while others or they decode.
        per_part: of each prompt of which it reads a part.
        per_token: of each token of a prompt that it reads.

    """

    base: float
    per_request: float = 0.0
    per_held: float = 0.0
    per_part: float = 0.0
    per_token: float = 0.0

    def scaled(self, factor: float) -> IterationCost:
        """Return the cost of iterations that take so many times as long."""
        return IterationCost(
            base=self.base * factor,
            per_request=self.per_request * factor,
            per_held=self.per_held * factor,
            per_part=self.per_part * factor,
            per_token=self.per_token * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens prompts or answers have: their mean, and their squared coefficient of variation."""

    mean: float
    scv: float = 0.0

    def draw(self, rng: Random) -> int:
        """Return a whole number of tokens, at least 1: gamma distributed, or nearly the mean where nothing varies."""
        value = self.mean if self.scv <= 0 else rng.gammavariate(1 / self.scv, self.mean * self.scv)
        whole = int(value)
        return max(whole + (rng.random() < value - whole), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """What an engine is asked for.

    Attributes:
        prompt: tokens of prompts.
        answer: tokens of answers.
        rate: requests per second of a Poisson process; not used where there are clients.
        clients: clients that each wait for their answer before they ask again; 0 for an open loop.
        think_seconds: mean seconds between an answer and the client's next request (exponential).
        steady: whether exactly as many come as do on average: a run of finite length has more or fewer by chance, on
            which queues depend most.

    """

    prompt: TokenCount
    answer: TokenCount
    rate: float = 0.0
    clients: int = 0
    think_seconds: float = 0.0
    steady: bool = False


class EngineRequest:
    """One request: when it came, was first scheduled, had its first token and its last one; infinity for not yet."""

    __slots__ = ("answer", "came", "decoded", "ended", "ends", "first", "order", "prompt", "started", "unread")

    def __init__(self, came: float, prompt: int, answer: int) -> None:
        self.came, self.prompt, self.answer = came, prompt, answer
        self.started = self.first = self.ended = inf
        self.decoded, self.unread, self.ends, self.order = 0, prompt, -1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """What a simulated engine did.

    Attributes:
        requests: all that came, in the order in which they came.
        begin, end: the seconds that are looked at.
        busy: seconds of them in which it iterated.
        running: running requests x seconds.
        waiting: waiting requests x seconds.
        cache: tokens in the cache x seconds.
        preempted: how often a running request was put back.
        iterations: how many there were.

    """

    requests: tuple[EngineRequest, ...]
    begin: float
    end: float
    busy: float
    running: float
    waiting: float
    cache: float
    preempted: int
    iterations: int


def simulate_engine(
    limits: EngineLimits, cost: IterationCost, load: EngineLoad, *, seconds: float, warmup: float = 0.0, seed: int = 0
) -> EngineRun:
    """Return what an engine does for `seconds` after `warmup` of them; the same for the same seed.

    Requests of an open loop come at the same moments and are as long whatever the limits and the cost.

    Raises:
        Endless: it takes more than `MOST_STEPS` steps.

    """
    loop = _Loop(limits, cost, load, seed, warmup, warmup + seconds)
    loop.run()
    return EngineRun(
        requests=tuple(loop.requests),
        begin=warmup,
        end=warmup + seconds,
        busy=loop.busy,
        running=loop.running_seconds,
        waiting=loop.waiting_seconds,
        cache=loop.cache_seconds,
        preempted=loop.preempted,
        iterations=loop.iterations,
    )


class _Loop:
    """The state of the engine between two iterations."""

    def __init__(
        self, limits: EngineLimits, cost: IterationCost, load: EngineLoad, seed: int, begin: float, end: float
    ) -> None:
        self.limits, self.cost, self.load, self.begin, self.end = limits, cost, load, begin, end
        # Each has its own generator, so that requests are alike whatever the engine does.
        names = ("gap", "prompt", "answer")
        self._gaps, self._prompts, self._answers = (Random(f"{seed} {name}") for name in names)  # noqa: S311
        self.requests: list[EngineRequest] = []
        self.waiting: deque[EngineRequest] = deque()
        self._reading: list[EngineRequest] = []
        self._decoding: list[tuple[int, int, EngineRequest]] = []  # by the iteration after which each ends
        self._admitted: list[EngineRequest] = []  # the newest last
        self._came: list[float] = []
        self.now = self.busy = self.running_seconds = self.waiting_seconds = self.cache_seconds = 0.0
        self._round = self._order = self._count = self.preempted = self.put_back = self.iterations = 0
        self._held = self._promised = 0.0
        self._begin_load()

    def _begin_load(self) -> None:
        if self.load.clients:
            think = self.load.think_seconds
            # Clients that would all ask at once stay together for long: they come over one answer's iterations.
            spread = think or self.cost.base * self.load.answer.mean
            self._came = [self._gaps.random() * spread for _ in range(self.load.clients)]
            heapify(self._came)
        elif self.load.steady:
            # Moments of a Poisson process of which the number is known are spread evenly.
            self._came = sorted(self._gaps.random() * self.end for _ in range(round(self.load.rate * self.end)))
        elif self.load.rate > 0:
            self._came = [self._gaps.expovariate(self.load.rate)]

    def run(self) -> None:
        """Iterate to the end.

        Raises:
            Endless: it takes more steps than a run may have, as where a cache holds no answer as long as requested.

        """
        steps = 0
        while self.now < self.end:
            steps += 1
            if steps + self.put_back > MOST_STEPS:
                raise Endless(f"takes more than {MOST_STEPS} steps")
            self._take_arrivals()
            if not self._iterate():
                if not self._came:
                    break
                self._spend(max(self._came[0] - self.now, 0.0), 0)

    def _take_arrivals(self) -> None:
        while self._came and self._came[0] <= self.now:
            at = heappop(self._came)
            request = EngineRequest(at, self.load.prompt.draw(self._prompts), self.load.answer.draw(self._answers))
            self.requests.append(request)
            self.waiting.append(request)
            # It came in the iteration that ended now.
            self.waiting_seconds += max(min(self.now, self.end) - max(at, self.begin), 0.0)
            if not self.load.clients and not self.load.steady:
                heappush(self._came, at + self._gaps.expovariate(self.load.rate))

    def _iterate(self) -> bool:
        """Run one iteration, or several that are alike; return False where there is nothing to do."""
        self._make_room()
        decoding = self._count
        tokens, parts = self._read(self.limits.token_budget - (decoding if self.limits.policy.mixed else 0))
        if not tokens and not decoding:
            return False
        decodes = decoding if self.limits.policy.mixed or not tokens else 0
        cost = self.cost
        each = cost.base + cost.per_request * decodes + cost.per_part * parts + cost.per_token * tokens
        if decodes:
            each += cost.per_held * self._held
        count = 1 if tokens else self._alike(each)
        # Each iteration of several holds a token more of every request.
        self._spend(count * each + cost.per_held * decodes * count * (count - 1) / 2, count)
        if decodes:
            self._round += count
            self._held += decodes * count
            self._promised -= decodes * count * self.limits.policy.reserved
            self._end_decoded()
        if tokens:
            self._end_reading()
        return True

    def _alike(self, each: float) -> int:
        """Return how many iterations pass until a request ends, one may join or the cache is full."""
        self._drop_stale()
        count = self._decoding[0][0] - self._round
        free = self._count < self.limits.slots
        if free and not self.waiting and self._came and self._came[0] < self.now + count * each:
            count = min(count, ceil((self._came[0] - self.now) / each))
        room = self.limits.cache_tokens - self._held
        if self._count * count > room:
            count = min(count, int(room // self._count))
        return max(count, 1)

    def _read(self, budget: float) -> tuple[int, int]:
        """Read prompts within the budget; return their tokens, and of how many prompts they are."""
        tokens = parts = 0
        for request in self._reading:
            part = int(min(request.unread, max(budget - tokens, 0)))
            tokens, parts = tokens + part, parts + (part > 0)
            request.unread -= part
        while self.waiting and self._fits(self.waiting[0]):
            request, left = self.waiting[0], budget - tokens
            part = int(min(request.unread, left)) if self.limits.chunked else request.unread
            # One that no budget holds is read once nothing else runs, so that it does not wait for ever.
            alone = not tokens and not self._reading and not self._count
            if part <= 0 or (part > left and not alone):
                break
            self._admit(self.waiting.popleft())
            request.unread -= part
            tokens, parts = tokens + part, parts + 1
        return tokens, parts

    def _fits(self, request: EngineRequest) -> bool:
        active = self._count + len(self._reading)
        if active >= self.limits.slots:
            return False
        return not active or self._held + self._promised + self._need(request) <= self.limits.cache_tokens

    def _need(self, request: EngineRequest) -> float:
        """Return the tokens of cache that must be free for a request to start."""
        return self._own(request) + self.limits.policy.reserved * (request.answer - request.decoded)

    def _own(self, request: EngineRequest) -> float:
        """Return the tokens of cache that a request holds, the empty rest of its last block included."""
        return request.prompt + request.decoded + (self.limits.block_tokens - 1) / 2

    def _admit(self, request: EngineRequest) -> None:
        request.started = min(request.started, self.now)
        request.order, self._order = self._order, self._order + 1
        self._held += self._own(request)
        self._promised += self.limits.policy.reserved * (request.answer - request.decoded)
        self._reading.append(request)
        self._admitted.append(request)

    def _end_reading(self) -> None:
        """Give those their first token whose prompt was read to its end."""
        done = [request for request in self._reading if not request.unread]
        self._reading = [request for request in self._reading if request.unread]
        for request in done:
            request.first = min(request.first, self.now)
            request.decoded += 1
            self._held += 1
            self._promised -= self.limits.policy.reserved
            if request.decoded >= request.answer:
                self._end(request)
                continue
            request.ends = self._round + request.answer - request.decoded
            heappush(self._decoding, (request.ends, request.order, request))
            self._count += 1

    def _end_decoded(self) -> None:
        self._drop_stale()
        while self._decoding and self._decoding[0][0] <= self._round:
            request = heappop(self._decoding)[2]
            request.decoded, self._count = request.answer, self._count - 1
            self._end(request)
            self._drop_stale()

    def _end(self, request: EngineRequest) -> None:
        request.ended, request.ends, request.order = self.now, -1, -1
        self._held -= self._own(request)
        if self.load.clients:
            think = self.load.think_seconds
            heappush(self._came, self.now + (self._gaps.expovariate(1 / think) if think else 0.0))

    def _drop_stale(self) -> None:
        """Drop what the heap still holds of requests that were put back."""
        while self._decoding and self._decoding[0][1] != self._decoding[0][2].order:
            heappop(self._decoding)

    def _make_room(self) -> None:
        """Put the newest requests back until each that decodes has room for its next token; one always goes on."""
        while self._held + self._count > self.limits.cache_tokens and self._count + len(self._reading) > 1:
            request = self._admitted.pop()
            if request.order < 0 or request.ended < inf:
                continue
            self._put_back(request)

    def _put_back(self, request: EngineRequest) -> None:
        self.put_back += 1
        self.preempted += self.now >= self.begin
        if request in self._reading:
            self._reading.remove(request)
        else:
            request.decoded = request.answer - (request.ends - self._round)
            self._count -= 1
        self._held -= self._own(request)
        self._promised -= self.limits.policy.reserved * (request.answer - request.decoded)
        # What it had is read again, with the tokens that it had generated.
        request.unread, request.order, request.ends = request.prompt + request.decoded, -1, -1
        self.waiting.appendleft(request)

    def _spend(self, seconds: float, iterations: int) -> None:
        """Let time pass, and note what of it is looked at."""
        then = self.now + seconds
        seen = min(then, self.end) - max(self.now, self.begin)
        if seen > 0:
            self.running_seconds += (self._count + len(self._reading)) * seen
            self.waiting_seconds += len(self.waiting) * seen
            self.cache_seconds += self._held * seen
            if iterations:
                self.busy += seen
                self.iterations += iterations
        self.now = then
