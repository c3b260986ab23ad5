"""What the service knows right now: immutable snapshots on a board that anyone may read without waiting."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident, IncidentChange
from diagnostics.service.own.lags import late_after
from diagnostics.wire.records import Scrape


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """One server that is scraped. Times are Unix seconds, None for never.

    Attributes:
        server: its name, Prometheus' `instance`; its URL until it was found.
        url: as the settings spell it, without credentials.
        deployment: which deployment it belongs to.
        up: whether the last round read its metrics or statistics.
        interval: seconds between two rounds.
        last_round: when the last round ended.
        last_success: when a round last read something.
        took: seconds of the last round.
        failures: rounds that failed in a row.
        error: why the last round, or one port in it, could not be read; empty when all could.
        served: whether requests had come when it was last read and judged; None where that is not known.
        found_by: the source of discovery that names it, as in `file targets/*.json`; empty where the settings do.
        labels: what that source knows of it.

    """

    server: str
    url: str
    deployment: str
    up: bool
    interval: float
    last_round: float | None = None
    last_success: float | None = None
    took: float = 0.0
    failures: int = 0
    error: str = ""
    served: bool | None = None
    found_by: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


# Beyond so many intervals without an answer, the last one is old.
OLD_AFTER = 4


def silent_since(targets: Iterable[TargetState]) -> float | None:
    """Return since when no server of a deployment answers, in Unix seconds; None while one does, and if none ever did.

    Args:
        targets: its servers.

    """
    found = list(targets)
    if any(one.up or not one.failures for one in found):
        return None
    return max((one.last_success for one in found if one.last_success is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One verdict on one deployment.

    Attributes:
        deployment: its name.
        at: Unix seconds of the newest scrape that it saw.
        took: seconds of thread time that the explanation cost.
        forecasting: those of them that forecasts took.
        lag: seconds from the newest scrape to the verdict.
        explanation: the verdict with all its evidence.
        changes: what happened to incidents.

    """

    deployment: str
    at: float
    took: float
    lag: float
    explanation: Explanation
    changes: tuple[IncidentChange, ...] = ()
    forecasting: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """Everything the page, the API and the exposition show of now. `version` grows with every change."""

    version: int = 0
    started: float = 0.0
    targets: Mapping[str, TargetState] = field(default_factory=dict)
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()

    def silent_since(self, deployment: str) -> float | None:
        """Return since when no server of a deployment answers; None while one does."""
        return silent_since(self._of(deployment))

    def is_late(self, deployment: str) -> bool:
        """Return whether a server was read longer after the newest verdict's data than `late_after` the interval."""
        evaluation, targets = self.evaluations.get(deployment), list(self._of(deployment))
        read = max((one.last_success for one in targets if one.last_success is not None), default=None)
        if evaluation is None or read is None:
            return False
        return read - evaluation.at > late_after(max(one.interval for one in targets))

    def _of(self, deployment: str) -> Iterator[TargetState]:
        return (one for one in self.targets.values() if one.deployment == deployment)


class EvaluationConsumer(Protocol):
    """Gets every verdict. Must return at once: whoever is slow queues and drops by itself."""

    def consume(self, evaluation: Evaluation) -> None: ...


class ScrapeConsumer(Protocol):
    """Gets every scrape. Must return at once."""

    def consume_scrape(self, deployment: str, scrape: Scrape) -> None: ...


class StateBoard:
    """The newest state, swapped as a whole: readers never wait for writers."""

    def __init__(self, started: float) -> None:
        self._changed = threading.Condition()
        self._state = LiveState(started=started)

    def read(self) -> LiveState:
        """Return the newest state."""
        return self._state

    def wait(self, version: int, timeout: float) -> LiveState:
        """Return the newest state as soon as it is newer than `version`, else what there is after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.version > version, timeout)
            return self._state

    def publish_target(self, state: TargetState) -> None:
        """Show a target's newest state."""
        with self._changed:
            self._swap(targets={**self._state.targets, state.url: state})

    def publish_evaluation(self, evaluation: Evaluation, incidents: tuple[Incident, ...]) -> None:
        """Show a verdict, and the incidents of its deployment that are open after it."""
        with self._changed:
            others = tuple(one for one in self._state.incidents if one.deployment != evaluation.deployment)
            evaluations = {**self._state.evaluations, evaluation.deployment: evaluation}
            self._swap(evaluations=evaluations, incidents=others + incidents)

    def forget(self, urls: Collection[str], deployments: Collection[str]) -> None:
        """Show no longer what the settings no longer name."""
        with self._changed:
            self._swap(
                targets={url: one for url, one in self._state.targets.items() if url not in urls},
                evaluations={name: one for name, one in self._state.evaluations.items() if name not in deployments},
                incidents=tuple(one for one in self._state.incidents if one.deployment not in deployments),
            )

    def _swap(
        self,
        targets: Mapping[str, TargetState] | None = None,
        evaluations: Mapping[str, Evaluation] | None = None,
        incidents: tuple[Incident, ...] | None = None,
    ) -> None:
        old = self._state
        self._state = LiveState(
            version=old.version + 1,
            started=old.started,
            targets=old.targets if targets is None else targets,
            evaluations=old.evaluations if evaluations is None else evaluations,
            incidents=old.incidents if incidents is None else incidents,
        )
        self._changed.notify_all()
