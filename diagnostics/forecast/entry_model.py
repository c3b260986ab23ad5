"""What forecasts an entry: Triton's schedulers, or the iteration loop of an engine that is served by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_fit import FittedLoop, fit_loop, is_loop
from diagnostics.forecast.engine_forecast import (
    changed_loop,
    engine_forecast,
    engine_performance,
    limit_now,
    settled_loop,
)
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Forecast, Performance
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


@dataclass(frozen=True, slots=True)
class SchedulerModel:
    """An entry of Triton."""

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
    return SchedulerModel(fit(evidence, on), evidence.read(ARRIVAL_RATE, on).value)
