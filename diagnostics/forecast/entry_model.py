"""What forecasts an entry: Triton's schedulers, the iteration loop of an engine, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_fit import FittedLoop, fit_loop, is_loop
from diagnostics.forecast.engine_forecast import (
    LOOP_SETTINGS,
    changed_loop,
    engine_forecast,
    engine_performance,
    limit_now,
    settled_loop,
)
from diagnostics.forecast.engine_stage import EngineStage, engine_stage, without_lengths
from diagnostics.forecast.fitted import Fitted, Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import EngineLatency, Forecast, Performance
from diagnostics.forecast.predict import forecast, performance
from diagnostics.forecast.what_if import WhatIf, changed, doubt
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import ARRIVAL_RATE
from diagnostics.tuning.changes import ConfigChange, SettingValue, current, is_build_option
from diagnostics.tuning.simulation.scenario import ClosedLoop


class EntryModel(Protocol):
    """A fitted entry. Its methods raise `UsageError` and `Unpredictable` as `what_if.changed` does."""

    @property
    def clients(self) -> int | None:
        """How many clients wait for their answers; None where requests come whatever the server does."""
        ...

    @property
    def rate(self) -> float:
        """Requests per second that come."""
        ...

    @property
    def measured(self) -> tuple[float | None, float | None]:
        """Mean and 95th percentile that were measured, in seconds; None where they were not."""
        ...

    @property
    def lengths(self) -> tuple[float, float] | None:
        """Mean tokens of prompts and of answers; None of what has no engine."""
        ...

    def forecast(self, what_if: WhatIf, seed: int) -> Forecast:
        """Return what a change would do."""
        ...

    def performance(self, what_if: WhatIf | None, seed: int) -> Performance:
        """Return what requests would experience with a change, or as it is."""
        ...

    def assumptions(self, what_if: WhatIf) -> tuple[str, ...]:
        """Return what the numbers of a change rest on."""
        ...

    def doubt(self, changes: Iterable[ConfigChange]) -> str:
        """Return why a change may bring nothing, in a sentence; empty where nothing speaks against it."""
        ...

    def value_now(self, model: str, path: str) -> tuple[SettingValue, bool]:
        """Return the value in effect of a setting, and whether it was read."""
        ...


@dataclass(slots=True)
class _Engine:
    """The engine of an entry, which is fitted when it is first needed."""

    make: Callable[[], EngineStage]
    found: EngineStage | None = None
    failure: Unpredictable | None = None

    def stage(self) -> EngineStage:
        """Return it.

        Raises:
            Unpredictable: its iterations were not read, or its load was not steady.

        """
        if self.failure is not None:
            raise self.failure
        if self.found is None:
            try:
                self.found = self.make()
            except Unpredictable as error:
                self.failure = error
                raise
        return self.found

    def latency(self, what_if: WhatIf | None, seed: int) -> EngineLatency | None:
        """Return first tokens and the time per token; None where they cannot be predicted."""
        try:
            return self.stage().latency(what_if, seed)
        except Unpredictable:
            return None


@dataclass(frozen=True, slots=True)
class SchedulerModel:
    """An entry of Triton: its schedulers alone."""

    fitted: Fitted
    arriving: float | None = None

    @property
    def clients(self) -> int | None:
        """How many clients wait for their answers."""
        loops = (one for one in self.fitted.scenario.traffic if isinstance(one, ClosedLoop))
        return sum(one.clients for one in loops if one.entry == self.fitted.entry) or None

    @property
    def rate(self) -> float:
        """Requests per second that come."""
        return self.arriving or self.fitted.measured.throughput

    @property
    def measured(self) -> tuple[float | None, float | None]:
        """Mean and 95th percentile that were measured."""
        return self.fitted.measured.mean, self.fitted.measured.p95

    @property
    def lengths(self) -> tuple[float, float] | None:
        """None: no engine is known behind it."""
        return None

    def forecast(self, what_if: WhatIf, seed: int) -> Forecast:
        """Return what a change would do."""
        return forecast(self.fitted, what_if, seed=seed)

    def performance(self, what_if: WhatIf | None, seed: int) -> Performance:
        """Return what requests would experience."""
        return performance(self.fitted, what_if, seed=seed)

    def assumptions(self, what_if: WhatIf) -> tuple[str, ...]:
        """Return what the numbers rest on."""
        return changed(self.fitted, what_if).assumptions

    def doubt(self, changes: Iterable[ConfigChange]) -> str:
        """Return why a change may bring nothing."""
        return doubt(self.fitted, changes)

    def value_now(self, model: str, path: str) -> tuple[SettingValue, bool]:
        """Return the value in effect of a setting; an engine's slots are read from its gauges."""
        engine = next((one.engine for one in self.fitted.scenario.models if one.name == model), None)
        if path == "engine.max_batch_size" and engine is not None:
            return engine.slots, True
        config = self.fitted.configs.get(model)
        value = current(config, path) if config is not None else None
        return value, config is not None and not is_build_option(path)


@dataclass(frozen=True, slots=True)
class EngineEntryModel(SchedulerModel):
    """An entry of Triton with an engine: other lengths by the engine's loop, the rest by Triton's schedulers."""

    engine: _Engine = field(kw_only=True)

    @property
    def lengths(self) -> tuple[float, float] | None:
        """Mean tokens of prompts and of answers."""
        load = self.engine.stage().loop.load
        return load.prompt.mean, load.answer.mean

    def forecast(self, what_if: WhatIf, seed: int) -> Forecast:
        """Return what a change would do."""
        if _of_lengths(what_if):
            stage = self.engine.stage()
            found = forecast(self.fitted, without_lengths(what_if, stage.model), seed=seed)
            return replace(
                found,
                baseline=stage.performance(found.baseline, None, seed),
                predicted=stage.performance(found.predicted, what_if, seed),
                assumptions=(*found.assumptions, *stage.assumptions(what_if)),
            )
        found = forecast(self.fitted, what_if, seed=seed)
        if not _moves_engine(what_if) or not found.predicted.stable:
            return found
        now, then = self.engine.latency(None, seed), self.engine.latency(what_if, seed)
        if now is None or then is None:
            return found
        return replace(
            found,
            baseline=replace(found.baseline, engine=now),
            predicted=replace(found.predicted, engine=then),
            assumptions=(
                *found.assumptions,
                "the time to the first token and per token are those of the engine's simulated iterations; the whole "
                "latency is not",
                *self.engine.stage().assumptions(what_if),
            ),
        )

    def performance(self, what_if: WhatIf | None, seed: int) -> Performance:
        """Return what requests would experience."""
        if what_if is not None and _of_lengths(what_if):
            stage = self.engine.stage()
            others = performance(self.fitted, without_lengths(what_if, stage.model), seed=seed)
            return stage.performance(others, what_if, seed)
        found = performance(self.fitted, what_if, seed=seed)
        if what_if is None or not _moves_engine(what_if) or not found.stable:
            return found
        return replace(found, engine=self.engine.latency(what_if, seed))

    def assumptions(self, what_if: WhatIf) -> tuple[str, ...]:
        """Return what the numbers rest on."""
        if not _of_lengths(what_if):
            return changed(self.fitted, what_if).assumptions
        stage = self.engine.stage()
        others = changed(self.fitted, without_lengths(what_if, stage.model)).assumptions
        return (*others, *stage.assumptions(what_if))


def _of_lengths(what_if: WhatIf) -> bool:
    return what_if.prompt_factor != 1.0 or what_if.answer_factor != 1.0


def _moves_engine(what_if: WhatIf) -> bool:
    """Return whether a change is one of the load, or of settings that the engine's loop knows."""
    if what_if.rate_factor != 1.0 or what_if.clients is not None:
        return not what_if.changes
    paths = {setting.path for change in what_if.changes for setting in change.settings}
    return bool(paths) and paths <= LOOP_SETTINGS


@dataclass(frozen=True, slots=True)
class LoopModel:
    """An engine that is served by itself."""

    fitted: FittedLoop

    @property
    def clients(self) -> int | None:
        """How many clients wait for their answers."""
        return self.fitted.load.clients or None

    @property
    def rate(self) -> float:
        """Requests per second that come."""
        return self.fitted.load.rate or self.fitted.measured.throughput

    @property
    def measured(self) -> tuple[float | None, float | None]:
        """The mean that was measured; no percentile is read."""
        return self.fitted.measured.latency, None

    @property
    def lengths(self) -> tuple[float, float] | None:
        """Mean tokens of prompts and of answers."""
        return self.fitted.load.prompt.mean, self.fitted.load.answer.mean

    def forecast(self, what_if: WhatIf, seed: int) -> Forecast:
        """Return what a change would do."""
        return engine_forecast(self.fitted, what_if, seed=seed)

    def performance(self, what_if: WhatIf | None, seed: int) -> Performance:
        """Return what requests would experience."""
        return engine_performance(self.fitted, what_if, seed=seed)

    def assumptions(self, what_if: WhatIf) -> tuple[str, ...]:
        """Return what the numbers rest on."""
        return changed_loop(self.fitted, what_if).assumptions

    def doubt(self, changes: Iterable[ConfigChange]) -> str:  # noqa: ARG002 (nothing is known to speak against any)
        """Return an empty text."""
        return ""

    def value_now(self, model: str, path: str) -> tuple[SettingValue, bool]:  # noqa: ARG002 (there is one)
        """Return the value in effect of a setting."""
        value = limit_now(self.fitted, path)
        return value, value is not None


def entry_model(evidence: WindowEvidence, on: Subject) -> EntryModel:
    """Return the model of an entry, as it was in the window.

    Raises:
        Unpredictable: what the model needs was not read; the message says what to read.

    """
    if is_loop(evidence, on):
        return LoopModel(settled_loop(fit_loop(evidence, on)))
    fitted = fit(evidence, on)
    make = engine_stage(evidence, fitted, on)
    arriving = evidence.read(ARRIVAL_RATE, on).value
    return EngineEntryModel(fitted, arriving, engine=_Engine(make)) if make else SchedulerModel(fitted, arriving)
