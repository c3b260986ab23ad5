"""A load test from its options to its report: targets are found, watched, loaded and let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics.bench.block import RequestLimits
from diagnostics.bench.report import BenchReport, differences
from diagnostics.cli.interrupting import Settle
from diagnostics.errors import CollectError, UsageError
from diagnostics.loadgen.openai_api import openai_configs, openai_model, server_url
from diagnostics.loadgen.pacing import event_loop
from diagnostics.loadgen.repository import configuration
from diagnostics.loadgen.sweep import Contender, LoadSweep, Plan
from diagnostics.loadgen.target import (
    OPENAI,
    LoadTarget,
    Order,
    TargetOptions,
    endpoint_of,
    first_answer,
    order_of,
    transport_of,
)
from diagnostics.loadgen.transport import Endpoint
from diagnostics.loadgen.watching import Watcher
from diagnostics.units import Unit
from diagnostics.wire.capture_writer import CaptureWriter
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.dcgm import dcgm_page
from exporters.sources.triton import discover
from exporters.sources.triton_server import TritonServer

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What is asked for: the plan, what is wanted of a target, what a good request keeps, and a capture's place."""

    plan: Plan
    wanted: TargetOptions
    limits: RequestLimits
    capture: Path | None


def measure(
    targets: Sequence[str], requested: BenchRequest, options: SourceOptions, announce: Announce, settle: Settle
) -> BenchReport:
    """Return the report of a load test, partial where it ended early.

    Args:
        targets: one or two URLs.
        requested: what is asked for.
        options: how servers are read.
        announce: called for each run.
        settle: called once it is interrupted, so that nothing interrupts its end.

    Raises:
        UsageError: the extra `bench` is missing, a target cannot take the load, or two were not asked the same.
        CollectError: a target does not answer.
        KeyboardInterrupt: the user, or SIGTERM, ended it before any load.

    """
    test = _Test(targets, requested, options, announce)
    with asyncio.Runner(loop_factory=event_loop) as runner, ExitStack() as stack:
        try:
            test.run(runner, stack)
        except KeyboardInterrupt:
            settle()
            if test.sweep is None:
                raise
    assert test.sweep is not None
    return test.sweep.report()


class _Test:
    """What is done in an event loop is only what load needs: all else ends at once when the user wants it to."""

    def __init__(
        self, urls: Sequence[str], requested: BenchRequest, options: SourceOptions, announce: Announce
    ) -> None:
        self.urls, self.requested, self.options, self.announce = urls, requested, options, announce
        self.sweep: LoadSweep | None = None

    def run(self, runner: asyncio.Runner, stack: ExitStack) -> None:
        targets = [self._target(url, runner, stack) for url in self.urls]
        _refuse_unmatched(targets)
        plan = self.requested.plan
        contenders = list(self._watched(targets, stack))
        total = Unit.SECONDS.show(plan.total_seconds * len(targets))
        self.announce(f"{total} of load at least; Ctrl-C ends early, and shows the results until then")
        self.sweep = LoadSweep(plan=plan, contenders=contenders, limits=self.requested.limits, announce=self.announce)
        runner.run(self.sweep.run())

    def _target(self, url: str, runner: asyncio.Runner, stack: ExitStack) -> LoadTarget:
        wanted = self.requested.wanted
        endpoint = endpoint_of(url, wanted)
        options = self.options.for_user(parse_address(url).user)
        target = self._taken(endpoint, options, runner)
        stack.callback(lambda: runner.run(target.transport.close()))
        return target

    def _taken(self, endpoint: Endpoint, options: SourceOptions, runner: asyncio.Runner) -> LoadTarget:
        """Return the target with the first requests that it does not refuse."""
        wanted = self.requested.wanted
        refusals: list[UsageError] = []
        for model, config in _configurations(endpoint, options, wanted.model):
            try:
                order = order_of(model, config, endpoint, wanted)
                return runner.run(self._requested_once(endpoint, options, order))
            except UsageError as error:
                refusals.append(error)
        raise refusals[0]

    async def _requested_once(self, endpoint: Endpoint, options: SourceOptions, order: Order) -> LoadTarget:
        transport = transport_of(endpoint, options)
        try:
            return await first_answer(endpoint, transport, order, self.requested.wanted)
        except BaseException:
            await transport.close()
            raise

    def _watched(self, targets: Sequence[LoadTarget], stack: ExitStack) -> Iterator[Contender]:
        found = [self._found(url) for url in self.urls]
        servers = [server for server in found if isinstance(server, TritonServer)]
        capture = self._capture(servers)
        if capture is not None:
            stack.enter_context(capture)
        beside = dcgm_page(self.options)
        for target, server in zip(targets, found, strict=True):
            if isinstance(server, CollectError):
                yield Contender(target=target, unwatched=str(server))
                continue
            watcher = Watcher(server, beside, capture)
            stack.callback(watcher.close)
            yield Contender(target=target, watcher=watcher)

    def _found(self, url: str) -> TritonServer | CollectError:
        """Return the server to read, or the reason why its counters are out of reach."""
        try:
            return discover(server_url(url) if self.requested.wanted.protocol in OPENAI else url, self.options)
        except CollectError as error:
            self.announce(f"points are not diagnosed: {error}")
            return error

    def _capture(self, servers: Sequence[TritonServer]) -> CaptureWriter | None:
        path = self.requested.capture
        if path is None:
            return None
        return CaptureWriter(path, path.name.partition(".")[0] or "bench", [server.name for server in servers], None)


def _configurations(
    endpoint: Endpoint, options: SourceOptions, model: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the model to ask and what its requests hold, best first."""
    if endpoint.protocol in OPENAI:
        served = openai_model(endpoint, options, model)
        yield from ((served, config) for config in openai_configs(served))
    else:
        yield configuration(endpoint, options, model)


def _refuse_unmatched(targets: Sequence[LoadTarget]) -> None:
    found = list(_unmatched(targets))
    if found:
        where = " and ".join(target.endpoint.name for target in targets)
        hint = "give both the same --input, or deploy them alike"
        raise UsageError(f"not comparable, as these differ: {'; '.join(found)}", where=where, hint=hint)


def _unmatched(targets: Sequence[LoadTarget]) -> Iterator[str]:
    for other in targets[1:]:
        yield from differences(targets[0].workload, other.workload)
