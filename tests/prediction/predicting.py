"""Predicts a measurement from the recorded window of another configuration, as `diag whatif` does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.runs import DRAWS
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.benchmark.deployment import Deployment, EngineSpec, StageSpec
from tests.prediction.measured import Measured
from tests.prediction.plan import Job

_BATCHING = "dynamic_batching"
_LIMIT = f"{_BATCHING}.default_queue_policy.max_queue_size"


def predict(capture: Path, source: Job, job: Job, measured: Measured, draws: int = DRAWS) -> Performance:
    """Return what the source's window says of a job's configuration, under the job's own arrivals.

    Raises:
        Unpredictable: the window does not say enough.

    """
    what_if = WhatIf(changes=changes(source.deployment, job.deployment), traffic=(traffic_of(job, measured),))
    model = fitted(capture, job.deployment.ensemble)
    return performance(
        model, what_if, draws=draws, replay_warmup_seconds=measured.began, replay_seconds=measured.seconds
    )


@lru_cache(maxsize=4)
def fitted(capture: Path, entry: str) -> Fitted:
    """Return the model that was fitted to a recorded window."""
    window = window_of(open_capture(capture).scrapes())
    server = next(iter(window.servers))
    return fit(WindowEvidence(window), Subject(server=server, ensemble=entry))


def traffic_of(job: Job, measured: Measured) -> OpenLoop | ClosedLoop:
    """Return the arrivals that the measurement got, up to the last read, or the job's clients."""
    entry = job.deployment.ensemble
    if job.load.clients:
        return ClosedLoop(entry=entry, clients=job.load.clients)
    end = measured.began + measured.seconds
    arrivals = job.load.arrivals(measured.load_seconds, job.seed)
    return OpenLoop(entry=entry, times=tuple(at for at in arrivals if at < end))


def changes(before: Deployment, after: Deployment) -> tuple[ConfigChange, ...]:
    """Return the settings of `config.pbtxt` in which two deployments of the same models differ."""
    pairs = [(one, after.stage(one.name)) for one in before.stages]
    assert all(one.gpus == other.gpus for one, other in pairs), "no setting moves instances to another card"
    found = [(one.name, tuple(_stage_settings(one, other))) for one, other in pairs]
    if before.engine is not None and after.engine is not None:
        found.append((before.engine.name, tuple(_engine_settings(before.engine, after.engine))))
    return tuple(ConfigChange(model=model, settings=settings) for model, settings in found if settings)


def _stage_settings(before: StageSpec, after: StageSpec) -> Iterator[Setting]:
    if before.instances != after.instances:
        yield Setting(path="instance_group.count", value=after.instances)
    was, now = _scheduling(before), _scheduling(after)
    if was and not now:
        yield Setting(path=_BATCHING, value=None)
        return
    for path, value in now.items():
        if was.get(path) != value:
            yield Setting(path=path, value=value)
    for path in was.keys() - now.keys():
        yield Setting(path=path, value=None)


def _scheduling(spec: StageSpec) -> dict[str, SettingValue]:
    if spec.delay_us is None and not spec.queue_limit:
        return {}
    settings: dict[str, SettingValue] = {f"{_BATCHING}.max_queue_delay_microseconds": spec.delay_us or 0}
    if spec.preferred:
        settings[f"{_BATCHING}.preferred_batch_size"] = spec.preferred
    if spec.queue_limit:
        settings[_LIMIT] = spec.queue_limit
    return settings


def _engine_settings(before: EngineSpec, after: EngineSpec) -> Iterator[Setting]:
    if before.slots != after.slots:
        yield Setting(path="engine.max_batch_size", value=after.slots)
    if before.kv_tokens != after.kv_tokens:
        yield Setting(path="parameters.max_tokens_in_paged_kv_cache", value=str(after.kv_tokens))
