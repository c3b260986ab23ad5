"""Deployments by hand and on synthetic servers: what forecasts are fitted to."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.forecast.fitted import Doubt, Fitted, Measured, ModelDoubt
from diagnostics.forecast.fitting import fit
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.service import BatchPoint, ServiceTime
from diagnostics.tuning.service import fit as fit_service
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    Resource,
    Scenario,
)
from tests.builders import SERVER, Stage, SyntheticTriton, chain, model_config

CHAT = Subject(server=SERVER, ensemble="chat")


def change(model: str, settings: Mapping[str, SettingValue]) -> ConfigChange:
    """Return a change of one model."""
    return ConfigChange(
        model=model, settings=tuple(Setting(path=path, value=value) for path, value in settings.items())
    )


def service(seconds: float, per_item: float = 0.0) -> ServiceTime:
    """Return a well known service time of batches of one to eight."""
    points = (BatchPoint(size=size, executions=10_000, seconds=seconds + per_item * size) for size in (1, 8))
    return fit_service(list(points))


def by_hand(
    *models: Model,
    traffic: OpenLoop | ClosedLoop | None = None,
    doubt: Doubt | None = None,
    resources: tuple[Resource, ...] = (),
) -> Fitted:
    """Return a chain of models, called 20 times per second, of which everything is known."""
    steps = tuple(ModelVisit(model=one.name, after=(i - 1,) if i else ()) for i, one in enumerate(models))
    return Fitted(
        server=SERVER,
        entry="chat",
        scenario=Scenario(
            models=models,
            entries=(EntryGraph(name="chat", steps=steps),),
            traffic=(traffic or OpenLoop(entry="chat", rate=20.0),),
            resources=resources,
        ),
        doubt=doubt or Doubt(models={one.name: ModelDoubt(service_scv=(0.0, 0.0)) for one in models}),
        measured=Measured(mean=None, p50=None, p95=None, throughput=20.0, span_seconds=30.0, stages=()),
        configs={},
        devices={one.name: (1,) for one in models},
        assumptions=(),
    )


def synthetic(*stages: Stage, **more: object) -> Fitted:
    """Return the fit of an ensemble of these stages on a synthetic server."""
    ensemble = Stage(
        "chat",
        rate=stages[0].rate,
        overhead=sum(one.seconds_of(1) + one.queue for one in stages) + 0.002,
        config=chain("chat", *(one.name for one in stages)),
    )
    return fit(SyntheticTriton(models=(ensemble, *stages), **more).evidence(), CHAT)  # type: ignore[arg-type]


def plain(name: str, *, rate: float = 20.0, seconds: float = 0.02, count: int = 1, **more: object) -> Stage:
    """Return a synthetic Python model of one execution time, with so many instances."""
    config = model_config(name, groups=({"kind": "KIND_CPU", "count": count},), max_batch=8)
    return Stage(**{"name": name, "rate": rate, "execution": seconds, "config": config, **more})  # type: ignore[arg-type]
