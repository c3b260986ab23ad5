"""A deployment whose executions are relieved of what made them longer from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from diagnostics.forecast.fitted import Fitted
from diagnostics.tuning.simulation.scenario import EntryGraph, Model

# What came from outside is never all of an execution: a claim that says so is its measurement's error.
_LEAST_LEFT = 0.05


def relieved(fitted: Fitted, seconds: Mapping[str, float]) -> Fitted:
    """Return the deployment with executions shorter by `seconds` per visit, by model; queues follow by themselves.

    Executions, an engine's iterations and what is hidden behind a row shrink by the same part. A model whose execution
    time was not measured is left as it is.
    """
    parts = {
        stage.model: max(1 - seconds[stage.model] / stage.compute_mean, _LEAST_LEFT)
        for stage in fitted.measured.stages
        if stage.compute_mean and stage.model in seconds
    }
    scenario = replace(
        fitted.scenario,
        models=tuple(_shorter(model, parts.get(model.name, 1.0)) for model in fitted.scenario.models),
        entries=tuple(_hiding_less(entry, parts) for entry in fitted.scenario.entries),
    )
    return replace(fitted, scenario=scenario)


def _shorter(model: Model, part: float) -> Model:
    engine = model.engine and replace(
        model.engine,
        prefill_seconds=model.engine.prefill_seconds * part,
        iteration_seconds=model.engine.iteration_seconds * part,
        iteration_seconds_per_request=model.engine.iteration_seconds_per_request * part,
    )
    return replace(model, service=model.service.scaled(part), engine=engine)


def _hiding_less(entry: EntryGraph, parts: Mapping[str, float]) -> EntryGraph:
    steps = (replace(step, tail_seconds=step.tail_seconds * parts.get(step.model, 1.0)) for step in entry.steps)
    return replace(entry, steps=tuple(steps))
