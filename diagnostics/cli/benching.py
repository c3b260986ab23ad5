"""A load test from its options to its report: targets are found, watched, loaded and let go."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from diagnostics.bench.limits import RequestLimits
from diagnostics.bench.report import Report
from diagnostics.bench.workload import differences
from diagnostics.errors import CollectError, UsageError
from diagnostics.loadgen.pacing import event_loop
from diagnostics.loadgen.plan import Plan
from diagnostics.loadgen.sweep import Contender, Sweep
from diagnostics.loadgen.target import Target, Wanted, endpoint_of, prepare, transport_of
from diagnostics.loadgen.watching import Watcher
from diagnostics.units import Unit
from diagnostics.wire.capture_writer import CaptureWriter
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.dcgm import dcgm_page
from exporters.sources.triton import discover
from exporters.sources.triton_server import TritonServer

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for: the plan, what is wanted of a target, what a good request keeps, and a capture's place."""

    plan: Plan
    wanted: Wanted
    limits: RequestLimits
    capture: Path | None


def measure(targets: Sequence[str], asked: Asked, options: SourceOptions, tell: Tell) -> Report:
    """Return the report of a load test, partial where it ended early.

    Args:
        targets: one or two URLs.
        asked: what is asked for.
        options: how servers are read.
        tell: told each run.

    Raises:
        UsageError: the extra `bench` is missing, a target cannot take the load, or two were not asked the same.
        CollectError: a target does not answer.

    """
    test = _Test(targets, asked, options, tell)
    with asyncio.Runner(loop_factory=event_loop) as runner:
        return test.run(runner)


def _found(url: str, options: SourceOptions, tell: Tell) -> TritonServer | None:
    """Return the server to read; None, which is told, where its counters are out of reach."""
    try:
        return discover(url, options)
    except CollectError as error:
        tell(f"points are not diagnosed: {error}")
        return None


def _writer(path: Path | None, servers: Sequence[TritonServer]) -> CaptureWriter | None:
    if path is None:
        return None
    return CaptureWriter(path, path.name.partition(".")[0] or "bench", [server.name for server in servers], None)


class _Test:
    def __init__(self, urls: Sequence[str], asked: Asked, options: SourceOptions, tell: Tell) -> None:
        self.urls, self.asked, self.options, self.tell = urls, asked, options, tell
        self.sweep: Sweep | None = None

    def run(self, runner: asyncio.Runner) -> Report:
        try:
            runner.run(self._run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            if self.sweep is None:
                raise KeyboardInterrupt from None
        assert self.sweep is not None
        return self.sweep.report()

    async def _run(self) -> None:
        _end_on_sigterm()
        async with AsyncExitStack() as stack:
            targets = [await self._prepare(url, stack) for url in self.urls]
            _refuse_unmatched(targets)
            plan = self.asked.plan
            watchers = self._watch(stack)
            contenders = [Contender(target=t, watcher=w) for t, w in zip(targets, watchers, strict=True)]
            self.sweep = Sweep(plan=plan, contenders=contenders, limits=self.asked.limits, tell=self.tell)
            total = Unit.SECONDS.show(plan.total_seconds * len(targets))
            self.tell(f"{total} of load at least; Ctrl-C ends early, and shows what was measured until then")
            await self.sweep.run()

    async def _prepare(self, url: str, stack: AsyncExitStack) -> Target:
        endpoint = endpoint_of(url, self.asked.wanted)
        options = self.options.for_user(parse_address(url).user)
        transport = transport_of(endpoint, options)
        stack.push_async_callback(transport.close)
        return await prepare(endpoint, transport, self.asked.wanted, options.scrub)

    def _watch(self, stack: AsyncExitStack) -> list[Watcher | None]:
        servers = [_found(url, self.options, self.tell) for url in self.urls]
        capture = _writer(self.asked.capture, [server for server in servers if server])
        if capture is not None:
            stack.enter_context(capture)
        beside = dcgm_page(self.options)
        watchers = [Watcher(server, beside, capture) if server else None for server in servers]
        for watcher in filter(None, watchers):
            stack.callback(watcher.close)
        return watchers


def _end_on_sigterm() -> None:
    """Let SIGTERM end the test as Ctrl-C does, with what was measured."""
    task = asyncio.current_task()
    # Signals come to the main thread alone.
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _refuse_unmatched(targets: Sequence[Target]) -> None:
    found = list(_unmatched(targets))
    if found:
        where = " and ".join(target.endpoint.name for target in targets)
        hint = "give both the same --input, or deploy them alike"
        raise UsageError(f"not comparable, as these differ: {'; '.join(found)}", where=where, hint=hint)


def _unmatched(targets: Sequence[Target]) -> Iterator[str]:
    for other in targets[1:]:
        yield from differences(targets[0].workload, other.workload)
