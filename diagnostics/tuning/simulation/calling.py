"""Executions that call other models: they hold their instance until the last call is answered."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.instances import Computing, Ended, Execution
from diagnostics.tuning.simulation.visits import InnerVisit, RequestVisit, StepNode


class Calling:
    """What a caller's executions compute on: their own part first, then their calls, one after another.

    The time of the calls is none of the execution's own: it is the called models'.
    """

    __slots__ = ("_at", "_computing")

    def __init__(self, clock: EventQueue, computing: Computing) -> None:
        self._at, self._computing = clock.at, computing

    def run(self, now: float, execution: Execution, ended: Ended) -> None:
        left = _calls(execution)
        self._computing.run(now, execution, lambda time, _: self._call(time, execution, left, ended))

    def _call(
        self, now: float, execution: Execution, left: Iterator[tuple[StepNode, RequestVisit]], ended: Ended
    ) -> None:
        following = next(left, None)
        if following is None:
            ended(now, execution)
            return
        stage, caller = following

        def returned(time: float) -> None:
            execution.begun += time - now
            # Planned rather than called at once, so that no scheduler is asked anew while it answers.
            self._at(time, lambda later, _: self._call(later, execution, left, ended), None)

        stage.begin(now, InnerVisit(caller, stage, returned))


def _calls(execution: Execution) -> Iterator[tuple[StepNode, RequestVisit]]:
    """Yield the stages to be called and the visits that call them; a request that has failed makes no more calls."""
    for visit in execution.visits:
        assert isinstance(visit, RequestVisit)
        for stage in visit.stage.calls:
            if not visit.request.failed:
                yield stage, visit
