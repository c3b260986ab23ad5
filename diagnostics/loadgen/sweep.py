"""Runs a plan on one or two targets and gathers the report; what was measured before an end stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.bench.answer import RequestResult
from diagnostics.bench.block import LoadBlock, block_of
from diagnostics.bench.limits import RequestLimits
from diagnostics.bench.notes import notes_of
from diagnostics.bench.report import BenchReport, LoadPoint, TargetResult
from diagnostics.loadgen.pacing import Pacer, Sent
from diagnostics.loadgen.plan import MOST_CLIENTS, Plan
from diagnostics.loadgen.target import LoadTarget
from diagnostics.loadgen.watching import Watcher

Tell = Callable[[str], None]


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
        tell: told each run.

    """

    plan: Plan
    contenders: Sequence[Contender]
    limits: RequestLimits
    tell: Tell
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
            self.tell(f"run {number} of {len(runs)}: {self._load(load)} on {name}")
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
