"""The engine behind an entry of Triton on its iteration loop: first tokens, time per token, and other lengths.

The other stages stay as Triton's schedulers have them. The whole latency of a change of load or slots does, too; the
loop alone knows lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.anatomy.anatomy import Phase, anatomies
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_fit import FittedLoop, fit_loop
from diagnostics.forecast.engine_forecast import LOOP_SETTINGS, changed_loop, engine_performance, lasting, settled_loop
from diagnostics.forecast.engine_window import MeasuredEngine
from diagnostics.forecast.fitted import Fitted, Unpredictable
from diagnostics.forecast.performance import EngineLatency, Estimate, Performance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import ClosedLoop

# A loop that gives another time than was measured by more than this part has not found what the engine does.
_OFF = 0.1
_CONSTANT = "the other stages delay every request equally: percentiles and first tokens leave out how their queues vary"
_UNSTEADY = "record a window in which as many requests are answered as come"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStage:
    """The engine of an entry.

    Attributes:
        model: its model.
        loop: its iterations, as they were in the window.
        rest: seconds of a request in the other stages.
        queued: seconds of a request in the queues of these, by model.

    """

    model: str
    loop: FittedLoop
    rest: float
    queued: Mapping[str, float]

    def what_if(self, request: WhatIf) -> WhatIf:
        """Return what changes for the engine alone.

        Raises:
            Unpredictable: a setting of it is none that the loop knows.

        """
        own = [change for change in request.changes if change.model == self.model]
        for setting in (setting for change in own for setting in change.settings):
            if setting.path not in LOOP_SETTINGS:
                raise Unpredictable(
                    f"{setting.path} and other lengths together are not predicted", where=self.model, hint="give one"
                )
        return replace(request, changes=tuple(own))

    def latency(self, request: WhatIf | None, seed: int) -> EngineLatency | None:
        """Return first tokens and the time per token; None where they cannot be predicted."""
        try:
            found = engine_performance(self.loop, None if request is None else self.what_if(request), seed=seed)
        except Unpredictable:
            return None
        return None if found.mean is None else _from_the_entry(found, self.rest)

    def performance(self, others: Performance, request: WhatIf | None, seed: int) -> Performance:
        """Return what requests to the entry experience, where `others` is all but the engine.

        Raises:
            Unpredictable: what the loop does cannot be told.

        """
        made = engine_performance(self.loop, None if request is None else self.what_if(request), seed=seed)
        rest, stage = self._rest_beside(others), made.stages[0]
        drawn = _beside(made.drawn, rest, others)
        return replace(
            others,
            mean=_spanning(_later(made.mean, rest), drawn),
            p50=_later(made.p50, rest),
            p95=_later(made.p95, rest),
            p99=_later(made.p99, rest),
            mean_most=None if made.mean_most is None else made.mean_most + rest,
            drawn=drawn,
            throughput=made.throughput,
            stages=tuple(replace(stage, engine=True) if one.model == self.model else one for one in others.stages),
            engine=_from_the_entry(made, rest),
        )

    def _rest_beside(self, others: Performance) -> float:
        """Return the seconds outside of the engine: those of the window, and what more passes in other queues."""
        more = (
            stage.queue_mean.value - self.queued[stage.model]
            for stage in others.stages
            if stage.queue_mean is not None and stage.model in self.queued
        )
        return max(self.rest + sum(more), 0.0)

    def assumptions(self, request: WhatIf) -> tuple[str, ...]:
        """Return what the loop's numbers rest on."""
        return (*changed_loop(self.loop, self.what_if(request)).assumptions, _CONSTANT)


def engine_stage(evidence: WindowEvidence, fitted: Fitted, on: Subject) -> Callable[[], EngineStage] | None:
    """Return what fits the one engine of an entry when it is called; None where it has none, or several.

    What is returned raises `Unpredictable` where its iterations were not read, or its load was not steady.
    """
    entry = next(one for one in fitted.scenario.entries if one.name == fitted.entry)
    models = [step.model for step in entry.steps if evidence.is_engine(Subject(server=on.server, model=step.model))]
    if len(models) != 1 or fitted.scenario.contended or _others_ask(fitted, models[0]):
        return None
    return lambda: _fitted(evidence, fitted, on, models[0])


def _others_ask(fitted: Fitted, model: str) -> bool:
    """Return whether other entries have requests for the model, too."""
    return any(step.model == model for one in fitted.scenario.entries if one.name != fitted.entry for step in one.steps)


def _fitted(evidence: WindowEvidence, fitted: Fitted, on: Subject, model: str) -> EngineStage:
    engine = Subject(server=on.server, model=model)
    seconds, rest = _seconds(evidence, on, model)
    loop = fit_loop(evidence, engine)
    load, clients = loop.load, _clients(fitted)
    if clients is not None:
        load = replace(load, rate=0.0, clients=clients.clients, think_seconds=clients.think_seconds + rest)
    elif load.clients:
        load = replace(load, rate=loop.measured.throughput, clients=0)
    measured: MeasuredEngine = replace(loop.measured, latency=seconds, first_token=None)
    loop = lasting(settled_loop(replace(loop, load=load, measured=measured).middle()), seconds)
    now = engine_performance(loop).mean
    if now is None or abs(now.value - seconds) > _OFF * seconds:
        raise Unpredictable(
            "its load was not steady: no loop takes as long as was measured", where=model, hint=_UNSTEADY
        )
    queued = {one.model: one.queue_mean for one in fitted.measured.stages if one.queue_mean is not None}
    return EngineStage(model=model, loop=loop, rest=rest, queued={m: s for m, s in queued.items() if m != model})


def _seconds(evidence: WindowEvidence, on: Subject, model: str) -> tuple[float, float]:
    """Return the seconds of a request in the engine, and in the other stages.

    What an engine hides and no stage shows is what all of them do not account for.
    """
    name = on.ensemble or on.model
    item = next(
        one for one in anatomies(evidence) if one.server == on.server and name in (one.ensemble, one.stages[0].model)
    )
    stage = item.stage(model)
    seen = stage is not None and (Phase.ENGINE in stage.cells or evidence.shows_engine_time(replace(on, model=model)))
    own = sum(stage.cells.values()) if stage else 0.0
    others = sum(sum(one.cells.values()) for one in item.stages if one.model != model)
    seconds = own if seen else max(item.mean_seconds - others, own)
    return seconds, max(item.mean_seconds - seconds, 0.0)


def _clients(fitted: Fitted) -> ClosedLoop | None:
    loops = (one for one in fitted.scenario.traffic if isinstance(one, ClosedLoop) and one.entry == fitted.entry)
    return next(loops, None)


def without_lengths(request: WhatIf, model: str) -> WhatIf:
    """Return what changes for the stages other than the engine."""
    others: tuple[ConfigChange, ...] = tuple(one for one in request.changes if one.model != model)
    return replace(request, changes=others, prompt_factor=1.0, answer_factor=1.0)


def _from_the_entry(made: Performance, rest: float) -> EngineLatency:
    """Return the engine's latencies by the entry's clock: each piece of an answer passes the other stages, too."""
    engine = made.engine
    assert engine is not None
    return replace(
        engine, first_token=_later(engine.first_token, rest), first_token_p95=_later(engine.first_token_p95, rest)
    )


def _beside(drawn: Sequence[float | None], rest: float, others: Performance) -> tuple[float | None, ...]:
    """Return each draw of the engine with the other stages: what these vary by is that of the draw of the same number.

    None where a side has no steady state in it.
    """
    if others.mean is None or len(others.drawn) != len(drawn):
        return tuple(None if one is None else one + rest for one in drawn)
    return tuple(
        None if own is None or other is None else max(own + rest + other - others.mean.value, own)
        for own, other in zip(drawn, others.drawn, strict=True)
    )


def _spanning(one: Estimate | None, drawn: Sequence[float | None]) -> Estimate | None:
    """Return the number with an interval that holds the draws, too; without an upper end where one has no value."""
    if one is None:
        return None
    known = [value for value in drawn if value is not None]
    high = None if one.high is None or len(known) < len(drawn) else max([one.high, *known])
    return Estimate(value=one.value, low=min([one.low, *known]), high=high)


def _later(one: Estimate | None, seconds: float) -> Estimate | None:
    if one is None:
        return None
    high = None if one.high is None else one.high + seconds
    return Estimate(value=one.value + seconds, low=one.low + seconds, high=high)
