"""Notices that the time of day was set: durations are measured by a steady clock, but dates before and after differ."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from diagnostics.service.deployment import Deployment
from diagnostics.service.log_lines import LoggedEvent, log_event
from diagnostics.service.own.lags import late_after
from diagnostics.service.own.metrics import FaultPart, OwnMetrics
from diagnostics.service.state import Evaluation, EvaluationConsumer, StateBoard
from diagnostics.signals.signal import Scope
from diagnostics.units import span

log = logging.getLogger(__name__)
# A clock that is slewed gains less from one verdict to the next.
STEP = 0.5
# How long it is kept: whoever looks at the times of the last hours has to know.
REPORTED_FOR = 3600.0
_WHAT = "keeping the time of day"


class ClockWatch:
    """Compares the time of day with the steady clock whenever it is asked to. For use by one thread."""

    def __init__(self, metrics: OwnMetrics) -> None:
        self._metrics = metrics
        self._offset: float | None = None
        self._stepped = float("-inf")

    def look(self, now: float, steady: float) -> None:
        """Count and report a step; Unix seconds, steady seconds."""
        step = 0.0 if self._offset is None else now - steady - self._offset
        self._offset = now - steady
        if abs(step) > STEP:
            self._stepped = steady
            self._metrics.errors.labels(FaultPart.CLOCK.value).inc()
            way = f"the clock was set {'ahead' if step > 0 else 'back'} by {abs(step):.1f} s"
            self._metrics.faults.failed(_WHAT, way, FaultPart.CLOCK)
            log.warning("%s; dates before and after it do not fit together", way)
        elif steady - self._stepped > REPORTED_FOR:
            self._metrics.faults.works(_WHAT)


# Of an interval, between two verdicts on a deployment: less than one, as rounds come early and late.
PAUSE = 0.5
# Of the thread's time, forecasts that simulate may take this part over long times, and so many seconds at once: what is
# answered holds for five minutes, and the first forecasts of some dozen deployments come together. Formulas cover what
# is left.
_SIMULATING, _AT_ONCE = 0.2, 30.0
# How long those who end the service wait for verdicts: what is not judged by then is recorded, and the next run judges.
SECONDS_TO_END = 5.0


class SimulationCredit:
    """The thread time that simulations may take: a part of all time, which is saved up to some seconds."""

    def __init__(self) -> None:
        self._left, self._since = _AT_ONCE, float("-inf")

    def left(self, steady: float) -> bool:
        """Return whether there is any at a steady second."""
        passed = max(steady - self._since, 0.0)
        self._left, self._since = min(self._left + _SIMULATING * passed, _AT_ONCE), steady
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Take what forecasts took, which may be more than was left."""
        self._left -= seconds


class LateEvaluations:
    """Reports deployments whose verdicts are late: a fault each while it lasts, a line of the log. For any thread.

    Whoever brings new data looks: the thread that makes verdicts may be busy with the late one.
    """

    def __init__(self, metrics: OwnMetrics) -> None:
        self._metrics, self._lock = metrics, threading.Lock()
        self._late: set[str] = set()

    def look(self, deployment: Deployment) -> None:
        """Report a deployment whose data waits for longer than `late_after` its interval."""
        name, limit = deployment.name, late_after(deployment.interval)
        waited = self._metrics.lags.waited(name)
        if waited <= limit:
            return
        way = f"evaluation is late: new data has waited {span(waited)} for a verdict, limit {span(limit)}"
        self._metrics.faults.failed(_evaluating(name), way, FaultPart.EVALUATE)
        with self._lock:
            known = name in self._late
            self._late.add(name)
        if not known:
            log_event(log, LoggedEvent.EVALUATION_LATE, way, deployment=name, waited_seconds=round(waited, 3))

    def over(self, name: str, waited: float) -> None:
        """Report that a verdict on a deployment was made, or is wanted no longer, after so many seconds."""
        with self._lock:
            known = name in self._late
            self._late.discard(name)
        self._metrics.faults.works(_evaluating(name))
        if known:
            way = f"evaluation is no longer late: the verdict took {span(waited)}"
            log_event(log, LoggedEvent.EVALUATION_RECOVERED, way, deployment=name, waited_seconds=round(waited, 3))


def _evaluating(deployment: str) -> str:
    return f"evaluating {deployment}"


class Evaluator:
    """One thread that is notified of deployments with news. News that come while one waits are judged together."""

    def __init__(self, board: StateBoard, consumers: Sequence[EvaluationConsumer], metrics: OwnMetrics) -> None:
        self._board, self._consumers, self._metrics = board, consumers, metrics
        self._clock, self._late = ClockWatch(metrics), LateEvaluations(metrics)
        self._waiting: dict[Deployment, None] = {}
        self._judged: dict[str, float] = {}
        self._shown: dict[str, set[str]] = {}
        self._credit = SimulationCredit()
        self._changed = threading.Condition()
        self._stopped, self._end = False, float("inf")
        self._thread = threading.Thread(target=self._run, name="evaluate", daemon=True)

    def start(self) -> None:
        """Begin to judge."""
        self._thread.start()

    def notify(self, deployment: Deployment) -> None:
        """Note that something arrived for a deployment."""
        with self._changed:
            self._waiting[deployment] = None
            self._metrics.queue_length.labels("evaluation").set(len(self._waiting))
            self._metrics.lags.arrived(deployment.name)
            self._changed.notify()
        if not deployment.ended:
            self._metrics.watch_lag(deployment.name, deployment.interval)
            self._late.look(deployment)

    def stop(self) -> None:
        """Judge what waits, for some seconds, then end."""
        with self._changed:
            self._stopped, self._end = True, time.monotonic() + SECONDS_TO_END
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (deployment := self._next()) is not None:
            self._metrics.lags.begin(deployment.name)
            try:
                self._judge(deployment)
            except Exception:
                # One deployment's absurd bodies must not end the verdicts on all others.
                self._metrics.lags.fail(deployment.name)
                self._metrics.errors.labels("evaluate").inc()
                log.exception("judging %s", deployment.name)

    def _next(self) -> Deployment | None:
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= self._end:  # incidents of what is watched no longer end in any case
                    self._waiting = {one: None for one in self._waiting if one.ended}
                one = next((one for one in self._waiting if self._due(one) <= now or self._stopped), None)
                if one is not None:
                    del self._waiting[one]
                    self._judged[one.name] = now
                    self._metrics.queue_length.labels("evaluation").set(len(self._waiting))
                    return one
                if self._stopped:
                    return None
                self._changed.wait(min((self._due(one) - now for one in self._waiting), default=None))

    def _due(self, one: Deployment) -> float:
        """Return when a deployment may be judged again: the rounds of its servers make one verdict an interval."""
        pause = 0.0 if one.ended else one.interval * PAUSE
        return self._judged.get(one.name, -pause) + pause

    def _judge(self, deployment: Deployment) -> None:
        self._clock.look(time.time(), time.monotonic())
        if deployment.ended:
            self._forget(deployment)
            self._publish(deployment.last())
            return
        fresh = deployment.take_in()
        if deployment.behind:
            self.notify(deployment)
        if not fresh:
            self._settle(deployment)
            return
        with self._metrics.tracer.span("evaluate", {"diag.deployment": deployment.name}) as span:
            evaluation = deployment.evaluate(simulate=self._credit.left(time.monotonic()))
            self._credit.spend(evaluation.forecasting)
            span.note("diag.findings", len(evaluation.explanation.findings))
            span.note("diag.lag_seconds", evaluation.lag)
        self._metrics.evaluation_seconds.observe(evaluation.took)
        self._metrics.incidents.labels(deployment.name).set(len(deployment.book.open))
        self._metrics.entries_refused.labels(deployment.name).set(_refused(evaluation))
        self._show_bytes(deployment.name, deployment.bytes_held())
        self._board.publish_evaluation(evaluation, deployment.book.open)
        self._settle(deployment, evaluation.lag)
        self._publish(evaluation)

    def _settle(self, deployment: Deployment, lag: float = 0.0) -> None:
        """Note that what came was judged, `lag` seconds after the newest scrape of it."""
        waited = self._metrics.lags.waited(deployment.name)
        self._metrics.lags.end(deployment.name, lag)
        self._late.over(deployment.name, waited)

    def _forget(self, deployment: Deployment) -> None:
        self._board.forget((), (deployment.name,))
        self._metrics.lags.forget(deployment.name)
        self._late.over(deployment.name, 0.0)
        self._show_bytes(deployment.name, {})
        own = self._metrics
        for shown in (own.incidents, own.evaluation_lag, own.evaluation_late, own.entries_refused):
            with suppress(KeyError):  # it was never judged
                shown.remove(deployment.name)

    def _show_bytes(self, deployment: str, held: Mapping[str, int]) -> None:
        for server in self._shown.get(deployment, set()) - set(held):
            self._metrics.window_bytes.remove(deployment, server)
        for server, size in held.items():
            self._metrics.window_bytes.labels(deployment, server).set(size)
        self._shown[deployment] = set(held)

    def _publish(self, evaluation: Evaluation | None) -> None:
        if evaluation is not None:
            for consumer in self._consumers:
                consumer.consume(evaluation)


def _refused(evaluation: Evaluation) -> int:
    evidence = evaluation.explanation.evidence
    return sum(len(evidence.refused(one.server)) for one in evidence.subjects(Scope.SERVER))
