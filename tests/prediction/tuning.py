"""What the search suggests from one recorded window, against the sweep of all settings."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from diagnostics.forecast.capacity import Carried, most_carried
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.simulation.scenario import ClosedLoop
from tests.benchmark.deployment import Deployment
from tests.prediction.folder import Folder
from tests.prediction.measured import Measured
from tests.prediction.plan import Job
from tests.prediction.predicting import fitted
from tests.prediction.sweeps import Sweep, sweeps

# Throughput of the suggestion as a share of the best one's, and of how many scenarios that is asked.
ENOUGH, OF_TEN = 0.95, 9
# Of twelve settings: a scenario of which fewer were measured says little of the best of them.
FEWEST_SETTINGS = 9
_PATHS = {"instances": "instance_group.count", "delay_us": "dynamic_batching.max_queue_delay_microseconds"}
_FIELDS = {path: field for field, path in _PATHS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A scenario's result.

    Attributes:
        sweep: the scenario.
        settings: how many of its settings were measured; the search chooses among these.
        objective: seconds that the 95th percentile end to end must stay under.
        meeting: measured throughput of each setting that met the objective, by the name of its measurement.
        suggested: name of the suggested setting's measurement; None where the search says that none meets it.
        reached: measured throughput of the suggestion; 0 where it missed the objective.
        tune_seconds: how long the search took, fitting included.
        sweep_seconds: for how long the server was under load to measure all settings.

    """

    sweep: Sweep
    settings: int
    objective: float
    meeting: Mapping[str, float]
    suggested: str | None
    reached: float
    tune_seconds: float
    sweep_seconds: float

    @property
    def ratio(self) -> float:
        """The suggestion's share of the best throughput that meets the objective; 1 where both say that none does."""
        if not self.meeting:
            return 0.0 if self.suggested else 1.0
        return self.reached / max(self.meeting.values())


def tuned(
    folder: Folder, only: Sequence[str] = (), processes: int | None = None, *, disturbed: bool = False
) -> list[Tuned]:
    """Return the result of each scenario whose window and, of its twelve settings, nine at least were measured.

    Measurements that other work disturbed count where `disturbed`.
    """
    measured = {name: one for name, one in folder.measured().items() if disturbed or not one.disturbed}
    tasks = [(folder.path, sweep, measured) for sweep in _wanted(only) if _is_enough(folder, sweep, measured)]
    if processes == 1 or len(tasks) < 2:
        return [_tuned(task) for task in tasks]
    with ProcessPoolExecutor(max_workers=processes or os.cpu_count()) as pool:
        return list(pool.map(_tuned, tasks))


def _wanted(only: Sequence[str]) -> list[Sweep]:
    return [sweep for sweep in sweeps() if not only or sweep.name.startswith(tuple(only))]


def _is_enough(folder: Folder, sweep: Sweep, measured: Mapping[str, Measured]) -> bool:
    return folder.capture(sweep.window).exists() and len(_known(sweep, measured)) >= FEWEST_SETTINGS


def _known(sweep: Sweep, measured: Mapping[str, Measured]) -> Sequence[str]:
    return [name for name, _ in sweep.settings() if name in measured]


def _tuned(task: tuple[Path, Sweep, Mapping[str, Measured]]) -> Tuned:
    path, sweep, measured = task
    objective, begun = objective_of(sweep, measured), time.monotonic()
    model = fitted(Folder(path).capture(sweep.window), sweep.base.ensemble)
    suggestion = suggest(model, sweep, objective, frozenset(measured))
    took = time.monotonic() - begun
    return judged(sweep, objective, suggestion, measured, took)


def objective_of(sweep: Sweep, measured: Mapping[str, Measured]) -> float:
    """Return seconds that half of the measured settings keep their 95th percentile under, and half do not."""
    return median(measured[name].p95.value for name in _known(sweep, measured))


def judged(
    sweep: Sweep, objective: float, suggestion: str | None, measured: Mapping[str, Measured], took: float
) -> Tuned:
    """Return a suggestion beside what was measured of all settings."""
    names = _known(sweep, measured)
    meeting = {name: measured[name].throughput for name in names if measured[name].p95.value < objective}
    jobs: Sequence[Job] = [job for job in sweep.jobs() if job.name in names]
    return Tuned(
        sweep=sweep,
        settings=len(names),
        objective=objective,
        meeting=meeting,
        suggested=suggestion,
        reached=meeting.get(suggestion or "", 0.0),
        tune_seconds=took,
        sweep_seconds=sum(job.settle + job.seconds for job in jobs),
    )


def suggest(deployment: Fitted, sweep: Sweep, objective: float, among: Container[str]) -> str | None:
    """Return the name of the measured setting that is forecast to answer most; None where none meets the objective.

    As `diag tune --maximize throughput --vary` does. That the loop is closed, and of how many clients, is told: it is
    what whoever drives a load knows.
    """
    clients = ClosedLoop(entry=deployment.entry, clients=sweep.load.clients)
    deployment = changed(deployment, WhatIf(traffic=(clients,)))
    vary: dict[str, dict[str, Sequence[SettingValue]]] = {}
    for (stage, field), values in sweep.space.items():
        vary.setdefault(stage, {})[_PATHS[field]] = values
    found = most_carried(deployment, LatencyTarget.parse(f"p95 < {objective * 1e3:.3f}ms"), vary)
    return next((name for one in found if (name := _name(sweep, one)) in among), None)


def _name(sweep: Sweep, candidate: Carried) -> str:
    deployment: Deployment = sweep.base
    for change in candidate.changes:
        values = {_FIELDS[setting.path]: setting.value for setting in change.settings}
        deployment = deployment.changed(change.model, **values)
    return next(name for name, one in sweep.settings() if one == deployment)


def tuning_lines(results: Sequence[Tuned]) -> Iterator[str]:
    """Yield the table."""
    yield "| scenario | p95 under | settings that do | best of them | suggested | ratio | search | sweep |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for one in results:
        best = f"{max(one.meeting.values()):.1f}/s" if one.meeting else "none"
        suggested = "none" if one.suggested is None else f"{one.reached:.1f}/s" if one.reached else "misses it"
        count = f"{len(one.meeting)} of {one.settings}"
        times = f"{one.tune_seconds:.1f} s | {one.sweep_seconds:.0f} s"
        found = f"{count} | {best} | {suggested} | {one.ratio:.0%}"
        yield f"| {one.sweep.name} | {one.objective * 1e3:.0f} ms | {found} | {times} |"
    enough = sum(1 for one in results if one.ratio >= ENOUGH)
    yield f"\nAt least {ENOUGH:.0%} of the best in {enough} of {len(results)} scenarios; aimed at: {OF_TEN} of 10."
