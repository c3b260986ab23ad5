"""Whether a forecast may call a queue endless that the window shows, or what is known instead.

Formulas put a stage that is busy all the time on either side of what it can do, by the luck of a few requests: clients
who wait for their answers keep it just as busy as an endless queue does, and no counter tells them from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf, sqrt

from diagnostics.diagnosis.effect import Unpredicted
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.fitted import Fitted, ModelDoubt
from diagnostics.forecast.load import drain_seconds, is_full, lanes, open_rate, reaching
from diagnostics.signals.engine import ENGINE_WAIT_SECONDS
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import PENDING, QUEUE_SECONDS
from diagnostics.tuning.simulation.scenario import OpenLoop

# Three waits exceed three others by chance alone once in twenty windows (rank sums; Mann & Whitney 1947).
_PART = 3
# Standard errors between what is offered and what can be done, beyond which chance does not explain the difference.
_CERTAIN = 2.0
_TRACE = "trace every request (rate=100), which shows clients who wait for their answers"


def grew(evidence: Evidence, on: Subject) -> bool | None:
    """Return whether a model's queue grew through the window: the waits in it, or the requests that wait.

    That is more in each of the last three of nine parts of the window than in each of the first three, the wait being
    the mean of what was completed in the part. None where it was read less often, or nothing was completed in a part.
    """
    moments, parts = evidence.moments(on.server), 3 * _PART
    if len(moments) <= parts:
        return None
    ends = [moments[round(at * (len(moments) - 1) / parts)] for at in range(parts + 1)]
    spans = list(pairwise(ends))
    signals = (ENGINE_WAIT_SECONDS if evidence.is_engine(on) else QUEUE_SECONDS, PENDING)
    seen = {_is_longer([evidence.read(signal, on, span).value for span in spans]) for signal in signals}
    return True in seen if seen != {None} else None


def _is_longer(parts: Sequence[float | None]) -> bool | None:
    known = [value for value in parts if value is not None]
    return min(known[-_PART:]) > max(known[:_PART]) if len(known) == len(parts) else None


def overloaded(fitted: Fitted, after: Fitted, grown: Callable[[str], bool | None]) -> Unpredicted | None:
    """Return what is known where models are offered more with a change than they do with full batches and alone.

    None where none is. What a model did in the window without its queue growing it can do, whatever formulas say of it.

    Args:
        fitted: the deployment as it was in the window.
        after: with the change.
        grown: whether a model's queue grew through the window; None where that is not known.

    """
    before, full = _full(fitted), _full(after)
    seen = {name: grown(name) for name in full if name in before}
    kept_up = [name for name, longer in seen.items() if longer is False]
    shares = {name: share / before[name] if name in kept_up else share for name, share in full.items()}
    most = 1 + _CERTAIN * max((_error(after, name) for name in full), default=0.0)
    sure = [name for name, share in shares.items() if seen.get(name) or share > most]
    if sure:
        return unsteady(f"with it {', '.join(sure)} is offered more than it can do", overrules=True)
    return _undecided(list(full), kept_up) if full else None


def _undecided(full: Sequence[str], kept_up: Sequence[str]) -> Unpredicted:
    names = kept_up or full
    why = "it is offered what it can do, to within what one window tells; read a longer one"
    if kept_up:
        why = f"formulas put what it is offered at all that it can do, but its queue did not go on growing; {_TRACE}"
    return Unpredicted(because=f"it is not known whether {', '.join(names)} keeps up with it: {why}")


def _error(fitted: Fitted, name: str) -> float:
    """Return the standard error of what is offered ÷ what can be done, as a share.

    Arrivals in a window vary by their index of dispersion ÷ their number (Cox & Lewis 1966); executions drift.
    """
    loops = [one for one in fitted.scenario.traffic if isinstance(one, OpenLoop)]
    arrivals = sum(map(open_rate, loops)) * fitted.measured.span_seconds
    index = max((max(one.scv, one.burst) for one in loops), default=1.0)
    drift = fitted.doubt.models.get(name, ModelDoubt(service_scv=(0.0, 0.0))).service_error
    return sqrt(drift**2 + index / arrivals) if arrivals > 0 else inf


def unsteady(why: str, *, overrules: bool) -> Unpredicted:
    """Return that a queue grows; it speaks against a check only where the window as it is has a steady state."""
    return Unpredicted(because=f"{why}: a queue would grow without end", overrules=overrules)


def unaccounted(by: str, names: Sequence[str], *, steady: bool) -> Unpredicted:
    """Return that a forecast has no steady state for models as they are, either, whose queues were not seen to grow.

    `steady` says whether they were seen not to.
    """
    why = f"but no such queue went on growing; {_TRACE}" if steady else "and how queues went is not known; read longer"
    return Unpredicted(because=f"{by} no steady state of {', '.join(names)} without it, either, {why}")


def _full(fitted: Fitted) -> Mapping[str, float]:
    """Return what is offered of what can be done, by model that gets as much or more."""
    wanted = reaching(fitted.scenario)
    return {
        model.name: wanted[model.name] * drain_seconds(model)
        for model in lanes(fitted.scenario)
        if is_full(model, wanted.get(model.name, 0.0))
    }
