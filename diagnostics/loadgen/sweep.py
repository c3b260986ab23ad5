"""What is to be measured, and in which order."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.bench.block import LoadBlock, RequestLimits, RequestResult, block_of
from diagnostics.bench.notes import notes_of
from diagnostics.bench.report import MOST_BLOCKS, BenchReport, LoadPoint, TargetResult
from diagnostics.errors import UsageError
from diagnostics.loadgen.load import LoadProfile, schedule
from diagnostics.loadgen.pacing import Pacer, Sent, undisturbed
from diagnostics.loadgen.target import LoadTarget
from diagnostics.loadgen.watching import Watcher

# One process of Python on one core sends about a thousand requests a second; past that it measures itself.
MOST_RATE = 1000.0
# Each open request holds a file descriptor, and select() takes none above 1,023.
MOST_CLIENTS = 512
# A run's answers are held at about 300 bytes each: so many take as much memory as a small machine has to spare.
MOST_REQUESTS = 1_000_000
# Longer blocks would show no less noise than more blocks do, and are lost as a whole.
LONGEST_SECONDS = 3600.0
# Arrivals of a rate in a block follow from seed, rate and block alone, so that both targets get the same ones.
_SEED_STRIDE = 7919


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep.

    Attributes:
        loads: ascending; clients of a closed loop, else requests per second.
        closed: whether each client sends when its last request was answered; else arrivals are a Poisson process.
        seconds: measured time of a run.
        warm_up: seconds of the same load right before it, which count for nothing.
        blocks: how often each load is run.
        seed: of arrivals and order.
        request_timeout: seconds after which a request has failed.

    Raises:
        UsageError: the numbers describe no load, or one that a single client cannot send exactly.

    """

    loads: tuple[float, ...]
    closed: bool
    seconds: float = 10.0
    warm_up: float = 2.0
    blocks: int = 3
    seed: int = 1
    request_timeout: float = 30.0

    def __post_init__(self) -> None:
        where, most = ("--concurrency", float(MOST_CLIENTS)) if self.closed else ("--rate", MOST_RATE)
        for load in self.loads:
            if not (math.isfinite(load) and load > 0) or (self.closed and load != int(load)):
                raise UsageError(f"{load:g} is no load", where=where, hint="give numbers above 0, as in 1,2,4,8")
            if load > most:
                hint = "run several diag bench from several machines for more"
                raise UsageError(
                    f"{load:g} is more than one client can send exactly ({most:g})", where=where, hint=hint
                )
        self._refuse_length()
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(f"give 1 to {MOST_BLOCKS}", where="--blocks")

    def _refuse_length(self) -> None:
        whole = self.warm_up + self.seconds
        if whole > LONGEST_SECONDS:
            hint = "measure more --blocks instead"
            raise UsageError(f"a block has {LONGEST_SECONDS:g} s at most", where="--duration, --warm-up", hint=hint)
        if self.closed:
            return
        if max(self.loads) * whole > MOST_REQUESTS:
            hint = "give a shorter --duration, and more --blocks"
            what = f"{max(self.loads):g} a second for {whole:g} s are more than {MOST_REQUESTS:,} requests"
            raise UsageError(what, where="--rate", hint=hint)
        if min(self.loads) * self.seconds < 1:
            what = f"{min(self.loads):g} a second leave a block of {self.seconds:g} s without a request"
            raise UsageError(what, where="--rate", hint="give a longer --duration")

    def order(self, targets: int) -> Iterator[tuple[float, int, int]]:
        """Yield load, block and target of each run.

        Blocks are complete and in random order inside (Fisher, The Design of Experiments, 1935): what drifts meanwhile,
        such as a clock or a neighbour, is in no load and in no target more than in another.
        """
        chance = random.Random(self.seed)  # noqa: S311 - an order that repeats, not a secret
        for block in range(self.blocks):
            for load in chance.sample(self.loads, len(self.loads)):
                for target in chance.sample(range(targets), targets):
                    yield load, block, target

    def arrivals(self, load: float, block: int) -> tuple[float, ...]:
        """Return the seconds after a run's start at which requests are due, warm-up first; empty in a closed loop."""
        if self.closed:
            return ()
        whole = self.warm_up + self.seconds
        return schedule(LoadProfile(rate=load, duration=whole, seed=self.seed * _SEED_STRIDE + block))

    @property
    def total_seconds(self) -> float:
        """How long all runs on one target take at least."""
        return len(self.loads) * self.blocks * (self.warm_up + self.seconds)


Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A target, and what watches it; None where its counters cannot be read, and then why."""

    target: LoadTarget
    watcher: Watcher | None = None
    unwatched: str = ""


@dataclass(slots=True)
class LoadSweep:
    """A plan under way.

    Attributes:
        plan: what to run.
        contenders: one or two targets.
        limits: what goodput counts.
        announce: called for each run.

    """

    plan: Plan
    contenders: Sequence[Contender]
    limits: RequestLimits
    announce: Announce
    _blocks: dict[tuple[int, float], list[LoadBlock]] = field(default_factory=dict)
    _ended: str = ""
    _started: float = 0.0

    async def run(self) -> None:
        """Run the plan; it ends early once a target does not answer any more."""
        self._started = time.time()
        self._ended = "interrupted"
        runs = list(self.plan.order(len(self.contenders)))
        for number, (load, block, who) in enumerate(runs, 1):
            name = self.contenders[who].target.endpoint.name
            self.announce(f"run {number} of {len(runs)}: {self._load(load)} on {name}")
            if not await self._measure(who, load, block):
                self._ended = f"{name} did not answer any more at {self._load(load)}"
                return
        self._ended = ""

    async def _measure(self, who: int, load: float, block: int) -> bool:
        """Run a load and keep what it measured; False where nobody answers any more."""
        plan, contender = self.plan, self.contenders[who]
        target = contender.target
        watch = contender.watcher.watch(plan.warm_up, plan.seconds) if contender.watcher else None
        try:
            with undisturbed():
                sent = await self._pacer(target, load, block).run(None if plan.closed else plan.arrivals(load, block))
        except BaseException:
            if watch:
                watch.cancel()
            raise
        if sent.gone or (not any(one.ok for one in sent.answers) and not await target.transport.alive()):
            if watch:
                watch.cancel()
            return False
        measured = block_of(
            sent.answers,
            sent.start + plan.warm_up,
            plan.seconds,
            closed=plan.closed,
            limits=self.limits,
            client_busy=sent.client_busy,
        )
        kept = self._blocks.setdefault((who, load), [])
        # Kept at once: whoever ends the test during the diagnosis has measured it.
        kept.append(measured)
        if contender.watcher and watch:
            found = contender.watcher.diagnose(
                watch, target.model, _measured(sent, plan), [one.end for one in sent.answers if one.ok]
            )
            kept[-1] = replace(measured, diagnosis=found)
        return True

    def _pacer(self, target: LoadTarget, load: float, block: int) -> Pacer:
        variants = len(target.requests.values)
        return Pacer(
            transport=target.transport,
            variants=variants,
            seconds=self.plan.warm_up + self.plan.seconds,
            clients=int(load) if self.plan.closed else MOST_CLIENTS,
            count=target.count,
            offset=block * variants // self.plan.blocks,
        )

    def _load(self, load: float) -> str:
        if not self.plan.closed:
            return f"{load:g} requests/s"
        return f"{load:g} client{'' if load == 1 else 's'}"

    def report(self) -> BenchReport:
        """Return what was measured until now."""
        plan = self.plan
        return BenchReport(
            started=self._started,
            loop="closed" if plan.closed else "open",
            seconds=plan.seconds,
            warm_up=plan.warm_up,
            blocks=plan.blocks,
            seed=plan.seed,
            limits=self.limits,
            targets=tuple(self._result(who, one) for who, one in enumerate(self.contenders)),
            ended=self._ended,
        )

    def _result(self, who: int, contender: Contender) -> TargetResult:
        target = contender.target
        points = tuple(
            LoadPoint(load=load, blocks=tuple(self._blocks[who, load]))
            for load in self.plan.loads
            if (who, load) in self._blocks
        )
        return TargetResult(
            name=target.endpoint.name,
            model=target.model,
            protocol=target.endpoint.protocol,
            workload=target.workload,
            points=points,
            notes=(
                *([f"points are not diagnosed: {contender.unwatched}"] if contender.unwatched else []),
                *notes_of(target.workload, points, closed=self.plan.closed, warm_up=self.plan.warm_up),
            ),
        )


def _measured(sent: Sent, plan: Plan) -> list[RequestResult]:
    start = sent.start + plan.warm_up
    return [one for one in sent.answers if start <= one.due < start + plan.seconds]
