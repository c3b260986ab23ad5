"""Standstills: executions that never end, and requests that wait out a load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median, quantiles

from diagnostics.signals.counting import FEWEST_EVENTS, absent, disorder
from diagnostics.signals.flow import ENSEMBLE_FAILURES_PER_REQUEST, only_ensemble
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.counters import MOST_MISSED_ROUNDS, SAME_ROUND_SECONDS, Opened
from diagnostics.window.lifecycle import LOG, SAME_EVENT_SECONDS, Happened, ServerChange, touch
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

_PENDING_FIX = "use Triton 23.09 or later, which exports the pending gauge"
_LOADS = (Happened.LOADED, Happened.RELOADED)
_INSTANCES = "instance_group."
# A load is over once. A shorter window around one shows a moment, not what users meet: what waited is spread over the
# requests of half a minute, in which two scrapes at the usual interval fall.
_JUDGED_SECONDS = 30.0
_ENDED = (Counter.SUCCESS, Counter.EXECUTIONS)


def _standstill(view: ModelView) -> Reading:
    """Seconds up to the last read in which requests waited at every read and none was executed or failed."""
    pending = view.pending()
    if not pending:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
    waiting_since = pending[-1][0]
    for at, value in reversed(pending):
        if value <= 0:
            break
        waiting_since = at
    seen = [source for source in (METRICS, STATISTICS) if any(map(_counts, view.steps(source)))]
    for wrong in (disorder(view, METRICS), disorder(view, STATISTICS)):
        if wrong not in (None, Missing.STALE):  # where one source stands still, the other may do
            return Reading.unknown(wrong, Unit.SECONDS, METRICS)
    if not seen:
        return absent(view, METRICS, Unit.SECONDS)
    newest = (next(filter(_moved, reversed(view.steps(source))), None) for source in seen)
    done = [step.end for step in newest if step is not None]
    doubted = [at for source in seen for table in view.tables(source) for at in table.doubted_at]
    # Who no longer waits was executed, whatever the counters say.
    taken = [at for (_, sooner), (at, later) in pairwise(pending) if later < sooner]
    since = max([waiting_since, *done, *doubted, *taken])
    seconds = max(pending[-1][0] - since, 0.0)
    longest = max(seconds, _since_last_inference(view)) if since == pending[0][0] else seconds
    return Reading.of(seconds, Unit.SECONDS, METRICS, high=longest, events=pending[-1][1])


def _since_last_inference(view: ModelView) -> float:
    """Return the seconds from a model's last inference to the last read, by the server's clock; 0 where it has none."""
    ended = [table.last.last_inference for table in view.tables(STATISTICS) if table.last]
    known = [at for at in ended if at is not None]
    return view.end - max(known) if known else 0.0


def _passed_on(view: ModelView) -> tuple[float, float] | None:
    """Return since when (Unix seconds) the stages before passed on what this one did not execute, and how many.

    Requests of which the ensemble reports that they failed do not wait. None where no stage before is counted.
    """
    ensemble = only_ensemble(view)
    sources = ensemble.before(view.model or "") if ensemble else ()
    steps = view.steps(STATISTICS)
    if ensemble is None or not sources or not any(map(_counts, steps)):
        return None
    moved = max((step.end for step in steps if _moved(step)), default=view.start)
    after = {name: [s for s in view.beside(name).steps(STATISTICS) if s.start >= moved] for name in sources}
    begun = [next((s.end for s in each if s.values.get(Counter.SUCCESS, 0.0) > 0), None) for each in after.values()]
    passed = min(increase(each, Counter.SUCCESS) for each in after.values())
    failed = sum(
        s.values.get(Counter.FAILURE, 0.0) / ENSEMBLE_FAILURES_PER_REQUEST
        for s in view.beside(ensemble.name).steps(STATISTICS)
        if s.start >= moved
    )
    known = [at for at in begun if at is not None]
    if len(known) < len(begun) or passed <= failed:
        return steps[-1].end, 0.0
    return max(known), passed - failed


def _standstill_by_flow(view: ModelView) -> Reading:
    """Without the gauge: seconds since the stages before passed on requests of which none was executed."""
    if (wrong := disorder(view, STATISTICS)) is not None:
        return Reading.unknown(wrong, Unit.SECONDS, STATISTICS)
    found = _passed_on(view)
    if found is None:
        return absent(view, STATISTICS, Unit.SECONDS)
    seconds = max(view.steps(STATISTICS)[-1].end - found[0], 0.0)
    return Reading.of(seconds, Unit.SECONDS, f"configuration and {STATISTICS}", estimated=True, events=found[1])


def _counts(step: CounterStep) -> bool:
    """Return whether a step counts what ends."""
    return any(counter in step.values for counter in _ENDED)


def _moved(step: CounterStep) -> bool:
    return _counts(step) and any(step.values.get(counter, 0.0) > 0 for counter in (*_ENDED, Counter.FAILURE))


STANDSTILL_SECONDS = Signal(
    name="standstill_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="How long, up to the last read, requests have waited without one execution ending; 0 when none waits.",
    readers=(_standstill, _standstill_by_flow),
    fix=_PENDING_FIX,
)


def _goes_on(step: CounterStep, since: float, until: float) -> bool:
    """Return whether a step counts on from one read to the next, without a reset or a hole between them."""
    return not step.opens and step.start <= since + SAME_ROUND_SECONDS and step.end >= until - SAME_ROUND_SECONDS


def _standstill_before_restart(view: ModelView) -> Reading:
    """The longest time in which requests waited at every read and none ended, up to one after which counters differ."""
    pending = view.pending()
    if not pending:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
    counted = [[step for step in view.steps(source) if _counts(step)] for source in (METRICS, STATISTICS)]
    seen = [steps for steps in counted if steps]
    moved = [step.end for steps in seen for step in steps if _moved(step)]
    longest, most, since = 0.0, 0.0, None
    for (at, waiting), (following, left) in pairwise(pending):
        if waiting <= 0 or any(at - SAME_ROUND_SECONDS < end <= at + SAME_ROUND_SECONDS for end in moved):
            since = at if waiting > 0 else None
        elif since is None:
            since = at
        if since is not None and left < waiting:
            anew = not all(any(_goes_on(step, at, following) for step in steps) for steps in seen)
            if anew and at - since > longest:
                longest, most = at - since, waiting
            since = None
    return Reading.of(longest, Unit.SECONDS, METRICS, events=most)


STANDSTILL_BEFORE_RESTART = Signal(
    name="standstill_before_restart_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="How long requests waited without one execution ending, until the counters began anew and none waited.",
    readers=(_standstill_before_restart,),
    fix=_PENDING_FIX,
)


def _stuck(view: ModelView) -> Reading:
    points = view.pending()
    if not points:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(points[-1][1], Unit.COUNT, METRICS)


def _passed_on_now(view: ModelView) -> Reading:
    found = _passed_on(view)
    if found is None:
        return absent(view, STATISTICS, Unit.COUNT)
    return Reading.of(found[1], Unit.COUNT, f"configuration and {STATISTICS}", estimated=True)


WAITING_NOW = Signal(
    name="waiting_now",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Requests waiting at the last read; without the gauge, what the stages before passed on.",
    readers=(_stuck, _passed_on_now),
    fix=_PENDING_FIX,
)


def _lifetime(view: ModelView) -> Reading:
    """Mean over all executions that the newest read counts: since the load, before the window too."""
    for table in (*view.tables(STATISTICS), *view.tables(METRICS)):
        if table.last is None or table.unsteady:
            continue
        seconds = sum(batch.seconds for batch in table.last.batches.values())
        executions = sum(batch.executions for batch in table.last.batches.values())
        if not table.last.batches:
            parts = (Counter.INPUT_SECONDS, Counter.INFER_SECONDS, Counter.OUTPUT_SECONDS)
            seconds = sum(table.last.values.get(part, 0.0) for part in parts)
            executions = table.last.values.get(Counter.SUCCESS, 0.0)
        if min(executions, table.last.values.get(Counter.EXECUTIONS, executions)) >= FEWEST_EVENTS:
            return Reading.of(seconds / executions, Unit.SECONDS, table.source, estimated=True, events=executions)
    return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, STATISTICS)


LIFETIME_EXECUTION_SECONDS = Signal(
    name="lifetime_execution_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Mean time of the executions since the model was loaded, whenever they were.",
    readers=(_lifetime,),
)


def loads_seen(view: ModelView) -> list[ServerChange]:
    """Return the loads of the model, all its versions, inside the span."""
    return [
        change
        for change in view.changes()
        if change.kind in _LOADS and view.start < change.at and change.since < view.end
    ]


def _count_of_loads(view: ModelView) -> Reading:
    found = [change for change in loads_seen(view) if view.version in (None, change.version) or not change.version]
    return Reading.of(float(len(found)), Unit.COUNT, found[0].source if found else METRICS)


LOADS = Signal(
    name="loads",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Loads and reloads of the model version inside the window.",
    readers=(_count_of_loads,),
)


def _queue_of(step: CounterStep) -> float:
    return step.values.get(Counter.QUEUE_SECONDS, 0.0) / step.values[Counter.SUCCESS]


def _served(view: ModelView) -> tuple[list[CounterStep], str]:
    """Return the steps of all versions in which requests ended."""
    whole = view.beside(view.model)
    for source in (STATISTICS, METRICS):
        steps = [s for s in whole.steps(source) if s.values.get(Counter.SUCCESS) and Counter.QUEUE_SECONDS in s.values]
        if steps:
            return steps, source
    return [], METRICS


def _excess(steps: Sequence[CounterStep]) -> list[float]:
    """Return per step the queue seconds above the steady level, the lower quartile of the steps."""
    queues = [_queue_of(step) for step in steps]
    steady = quantiles(queues, n=4)[0]
    return [max(queue - steady, 0.0) * step.values[Counter.SUCCESS] for queue, step in zip(queues, steps, strict=True)]


def _loads_while_it_served(view: ModelView) -> list[ServerChange]:
    """Return the loads that requests can have waited out: not the server's restart, nor an unload and a load.

    What waited before those is gone with its queue. The metrics show it: they go on through a reload in place, and a
    new version's begin; where a version's own begin again, it was away. What waits around a change of capacity waits
    for that.
    """
    restarts = [change for change in view.server_changes() if change.kind is Happened.RESTARTED]
    away = [step for table in view.tables(METRICS) for step in table.resets if step.opened is Opened.RESET]
    return [
        load
        for load in loads_seen(view)
        if not any(touch(load, restart) for restart in restarts)
        and not any(step.start <= load.at and load.since <= step.end for step in away)
        and not changes_capacity(view, load)
    ]


def judged_requests(view: ModelView, requests: float) -> float:
    """Return over how many requests what waited once for a load is spread: the window's, or those of half a minute."""
    return requests * max(_JUDGED_SECONDS / view.seconds, 1.0) if view.seconds > 0 else requests


def changes_capacity(view: ModelView, load: ServerChange) -> bool:
    """Return whether a load gave the model other instances: requests wait for those then, during the load and after it.

    Triton applies such a change in place: instances that stay go on meanwhile.
    """
    return any(
        change.kind is Happened.CONFIGURED
        and load.since <= change.at
        and change.since <= load.at
        and any(setting.path.startswith(_INSTANCES) for setting in change.settings)
        for change in view.changes()
    )


def is_denied(view: ModelView, load: ServerChange) -> bool:
    """Return whether the statistics went on through a load that the log reports: each makes them start from zero.

    The log is another server's then, or its clock or the recorder's was set; when it was loaded is not known.
    """
    if load.source != LOG:
        return False
    tables = [table for table in view.beside(view.model, load.version or None).tables(STATISTICS) if table.steps]
    since, until = load.since - SAME_EVENT_SECONDS, load.at + SAME_EVENT_SECONDS
    anew = any(step.start <= until and since <= step.end for table in tables for step in table.resets)
    return not anew and any(step.start < load.at <= step.end for table in tables for step in table.steps)


def in_load(steps: Sequence[CounterStep], loads: Sequence[ServerChange]) -> list[bool]:
    """Return which steps overlap a load; what waited during one ends in the step after it at the latest."""
    marked = [any(_overlap(step, load) for load in loads) for step in steps]
    return [now or before for before, now in zip([False, *marked], marked, strict=False)]


def _unwatched(steps: Sequence[CounterStep], inside: Sequence[bool]) -> bool:
    """Return whether nobody tried to read for rounds around a load: what waited then may have waited at any time."""
    most = MOST_MISSED_ROUNDS * median(step.unwatched for step in steps)
    return any(marked and step.unwatched > most for step, marked in zip(steps, inside, strict=True))


def _overlap(step: CounterStep, load: ServerChange) -> bool:
    """Return whether a load, of an instant or longer, went on in a step; one that only touches it did not."""
    return load.since < step.end and (step.start < load.at or step.start <= load.since)


def waits_without(each: Sequence[float], inside: Sequence[bool]) -> list[float]:
    """Return per step the wait of a request that no load would explain: as before it, and growing as it grew there.

    One step that is longer than the one before is chance; two in a row are a queue that lengthens.

    Args:
        each: seconds per request and step, in time order.
        inside: whether a step is in a load.

    """
    found: list[float] = []
    before, longer, growth = 0.0, 0.0, 0.0
    for seconds, marked in zip(each, inside, strict=True):
        if not marked:
            longer, sooner = max(seconds - before, 0.0) if found else 0.0, longer
            growth = min(longer, sooner)
        before = before + growth if marked else seconds
        found.append(before)
    return found


def _beyond_before(steps: Sequence[CounterStep], excess: Sequence[float], inside: Sequence[bool]) -> Iterator[float]:
    """Yield the excess of each step in a load beyond what would have waited without it."""
    requests = [step.values[Counter.SUCCESS] for step in steps]
    usual = waits_without([seconds / many for seconds, many in zip(excess, requests, strict=True)], inside)
    for seconds, many, without, marked in zip(excess, requests, usual, inside, strict=True):
        if marked:
            yield max(seconds - without * many, 0.0)


def _over_loads(unit: Unit, compute: Callable[[float, float, float], float]) -> Callable[[ModelView], Reading]:
    """Return a reader of (excess during loads, all excess, requests)."""

    def read(view: ModelView) -> Reading:
        loads, (steps, source) = _loads_while_it_served(view), _served(view)
        if not loads:
            return Reading.of(0.0, unit, source)
        loads = [load for load in loads if not is_denied(view, load)]
        if not loads:
            return Reading.unknown(Missing.CONFLICTING, unit, f"{LOG} and {STATISTICS}")
        if len(steps) < 4:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, source)
        excess, inside = _excess(steps), in_load(steps, loads)
        if _unwatched(steps, inside):
            return Reading.unknown(Missing.STALE, unit, source)
        during = sum(_beyond_before(steps, excess, inside))
        requests = increase(steps, Counter.SUCCESS)
        judged = judged_requests(view, requests)
        return Reading.of(compute(during, sum(excess), judged), unit, source, events=requests)

    return read


LOAD_QUEUE_SECONDS = Signal(
    name="load_queue_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Queue time during loads of the model, above the steady level and that before, per request of the window, or "
    "of half a minute where it is shorter.",
    readers=(_over_loads(Unit.SECONDS, lambda during, _, requests: during / requests),),
)
LOAD_QUEUE_SHARE = Signal(
    name="load_queue_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of all queue time above the steady level that falls into loads of the model.",
    readers=(_over_loads(Unit.RATIO, lambda during, everything, _: during / everything if everything > 0 else 0.0),),
)
