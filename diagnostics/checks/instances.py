"""What more instances on the same device would do, as forecasts with their interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Fires, Prediction, Quiet, Suggestion
from diagnostics.evidence.capacity import IN_USE, stage_load
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.arrivals import BURST_SIZE
from diagnostics.signals.capacity import RATE_LIMIT, RATE_LIMIT_USE
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.dispersion import EXECUTION_DISPERSION, UNDISTURBED_EXECUTION_SHARE
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.recounts import FEWER_INSTANCES_QUEUE, most_of, recounts
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.tails import SLOW_EXECUTION_SECONDS, TAIL, TYPICAL_EXECUTION_SECONDS
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import (
    StageForecast,
    StageLoad,
    capacity,
    headroom_limited,
    likely_seconds,
    on_device,
    predict,
)
from diagnostics.units import Unit

MODEL = "scheduler model"


def queue_of(forecast: StageForecast) -> Reading:
    """Return the forecast queue; absent when the stage could not keep up."""
    value = forecast.queue_seconds
    if value is None:
        return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, MODEL)
    low = value if forecast.queue_low is None else min(forecast.queue_low, value)
    # Without an upper end the stage may not keep up at the pessimistic end of what is known.
    high = inf if forecast.queue_high is None else max(forecast.queue_high, value)
    return Reading.of(value, Unit.SECONDS, MODEL, low=low, high=high)


def prediction(
    phase: Phase, now: float, forecast: Reading, assumptions: tuple[str, ...], unless: str = ""
) -> Prediction:
    """Return a present forecast as what the phase's time will be."""
    value = forecast.value or 0.0
    return Prediction(
        phase=phase,
        now_seconds=now,
        predicted_seconds=value,
        low_seconds=value if forecast.low is None else forecast.low,
        high_seconds=forecast.high if forecast.high is not None and isfinite(forecast.high) else None,
        assumptions=assumptions,
        unless=unless,
    )


# Eight times as many instances as now is beyond what any device with room for them was short of.
MOST_TIMES = 8
# Above eight instances an eighth of them is the finest step worth weighing.
FINEST_STEP = 8
# The smallest count that reaches nine tenths of what the best count brings: the rest costs memory and buys little.
ENOUGH_OF_GAIN = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The stage as it is, and with the smallest number of instances that is enough.

    Attributes:
        load: the stage as measured.
        now: the model's own account of it.
        count: the smallest number of instances that is enough; the present one when none helps.
        forecast: the stage at that count; None when none helps.
        most: the best that any count does at the favourable end of what is known of the device.

    """

    load: StageLoad
    now: StageForecast
    count: int
    forecast: StageForecast | None
    most: StageForecast


UNEVEN = Limit(
    value=1.0,
    unit=Unit.COUNT,
    because="executions that vary by more than their mean (an exponential time: 1) make requests wait twice as long as "
    "constant ones do (M/G/1: (1+c²)/2), so that most of a wait comes of what makes them long",
)
UNEXPLAINED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="where executions and arrivals as measured make under half of a wait, something else makes most of it",
)


def expect_explained(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where requests wait longer than arrivals and the executions of quiet reads make them.

    A standstill of all instances lengthens few executions and makes who comes meanwhile wait: more instances would
    stand still, too. A stage that cannot keep up has a queue of any length, and bursts make longer ones than single
    requests do.

    Raises:
        Undecided: most of the wait is not explained.

    """
    load, queue = stage_load(ledger, subject), ledger.evidence.read(QUEUE_SECONDS, subject)
    bursts = ledger.evidence.read(BURST_SIZE, _entry(ledger, subject))
    service = load.service.scaled(ledger.need(UNDISTURBED_EXECUTION_SHARE, subject))
    forecast = predict(replace(load, service=service, arrival_scv=max(bursts.value or 1.0, 1.0)))
    if forecast.queue_high is None or not queue.low:
        return
    part = Reading.of(forecast.queue_high / queue.low, Unit.RATIO, MODEL, estimated=True)
    if not ledger.compare("explained_queue_share", part, UNEXPLAINED):
        raise ledger.conflicting(EXECUTION_DISPERSION)


def are_long_at_times(ledger: Ledger, subject: Subject) -> bool:
    """Return whether executions are much longer in some reads than in others, of too few reads whether some executions
    are; not known counts as no.
    """
    uneven = ledger.evidence.read(EXECUTION_DISPERSION, subject)
    if uneven.value is None or uneven.low is None:
        typical, slow = (
            ledger.evidence.read(one, subject).value for one in (TYPICAL_EXECUTION_SECONDS, SLOW_EXECUTION_SECONDS)
        )
        return typical is not None and slow is not None and slow >= TAIL * typical
    ledger.as_rival().compare(EXECUTION_DISPERSION.name, uneven, UNEVEN)
    return uneven.low >= UNEVEN.value


def _entry(ledger: Ledger, subject: Subject) -> Subject:
    """Return the entry point through which requests come to a model: an ensemble, or itself."""
    entry = ledger.entry_of(subject)
    through = None if entry is None else entry.ensemble
    return Subject(server=subject.server, model=None if through else subject.model, ensemble=through)


def is_short(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the instances cannot do what is offered, refused requests included; not known counts as no."""
    try:
        return not predict(stage_load(ledger, subject)).stable
    except Undecided:
        return False


def scaling(ledger: Ledger, subject: Subject, measured_seconds: float) -> Scaling:
    """Return what instance counts up to eight times the present one would do.

    Args:
        ledger: the ledger of the check that asks.
        subject: the model version.
        measured_seconds: what a request spends in queue and execution now.

    """
    load, headroom = stage_load(ledger, subject), ledger.evidence.read(DEVICE_HEADROOM, subject)
    room = None if headroom.low is None or headroom.high is None else (headroom.low, headroom.high)
    limited = headroom_limited(load, room)
    favourable = headroom_limited(load, (room[1], room[1])) if room else limited
    counts = range(load.instances + 1, load.instances * MOST_TIMES + 1, max(load.instances // FINEST_STEP, 1))
    likely = {count: likely_seconds(replace(limited, instances=count)) for count in counts}
    stable = {count: seconds for count, seconds in likely.items() if seconds is not None}
    best = min(stable.values(), default=measured_seconds)
    gain = measured_seconds - best
    enough = [count for count, seconds in stable.items() if measured_seconds - seconds >= ENOUGH_OF_GAIN * gain > 0]
    count = min(enough, default=load.instances)
    return Scaling(
        load=load,
        now=predict(load),
        count=count,
        forecast=predict(replace(limited, instances=count)) if enough else None,
        most=predict(
            max(
                (replace(favourable, instances=count) for count in counts),
                key=lambda one: capacity(on_device(one, one.device_seconds[0])),
            )
        ),
    )


def instances_change(ledger: Ledger, subject: Subject, now: int, wanted: int) -> tuple[str, ConfigChange | None]:
    """Return in words, and as a change, how a model gets from `now` instances to about `wanted`.

    A count is per GPU that its group lists, and one value is written for every group: where these make several
    instances of it, the count is what makes at least as many (or at most, of fewer) than wanted. None where groups
    differ, or where only fewer GPUs would make as few.
    """
    config = ledger.evidence.config(subject)
    counts = {group.count for group in config.instance_groups if not group.passive} if config else {now}
    count = min(counts, default=1)
    times, rest = divmod(now, count)
    if len(counts) > 1 or rest or not times:
        return f"instance_group counts of {subject.model} from {now} to {wanted} instances in all", None
    to = ceil(wanted / times) if wanted > now else max(wanted // times, 1)
    if to == count:
        return f"the instances of {subject.model} from {now} to {wanted}, on fewer GPUs", None
    change = ConfigChange(model=subject.model or "", settings=(Setting(path="instance_group.count", value=to),))
    each = f" ({times} instances each: {now} to {to * times})" if times > 1 else ""
    return f"instance_group count of {subject.model} from {count} to {to}{each}", change


def when_taken_away(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that requests wait while instances are taken away that come back; None without such a time."""
    waits = ledger.evidence.read(FEWER_INSTANCES_QUEUE, subject)
    if not waits.value or ledger.evidence.is_engine(subject):
        return None
    if not ledger.as_alternative().worthwhile(FEWER_INSTANCES_QUEUE.name, subject, waits):
        return None
    found = recounts(ledger.evidence.changes(subject.server), subject.model or "")
    least, most, now = min(min(one.before, one.after) for one in found), most_of(found), found[-1].after
    words, change = instances_change(ledger, subject, now, most) if now < most else ("", None)
    return Fires(
        summary=f"the number of instances of {subject.model} was changed {len(found)} times, between {least} and "
        f"{most}: requests wait while there are fewer than {most}, {Unit.SECONDS.show(waits.value)} each on average "
        "over the window, and hardly at other times",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=waits.value),),
        saved_seconds=waits.value,
        suggestion=Suggestion(
            text=f"stop what takes instances of {subject.model} away: its queue is empty because they are there"
            + (f"; raise {words}" if words else ""),
            change=change,
        ),
    )


def callers_wait(ledger: Ledger, subject: Subject, saved: Reading) -> Reading:
    """Return what requests wait less for a model that holds its instances while it waits for the subject, per request
    of the subject; 0 where none is known to call it.

    As large a part of that model's queue goes as of the time for which its instances are held.
    """
    entry = ledger.entry_of(subject)
    caller = Subject(server=subject.server, model=entry.caller) if entry is not None and entry.caller else None
    around = ledger.entry_of(caller) if caller is not None else None
    none = Reading.of(0.0, Unit.SECONDS, saved.source)
    if entry is None or caller is None or around is None or min(entry.weight, around.weight) <= 0:
        return none
    held, queue = (ledger.evidence.read(signal, caller) for signal in (EXECUTION_SECONDS, QUEUE_SECONDS))
    if not held.value or queue.value is None or saved.value is None:
        return none
    calls = entry.weight / around.weight
    part = min(max(saved.value, 0.0) * calls / held.value, 1.0)
    return Reading.of(queue.value * part / calls, Unit.SECONDS, queue.source, estimated=queue.estimated)


SETTING = "instance_group.rate_limiter"


def with_more_of_the_resource(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide what is gained where the limiter lets all instances execute at once."""
    ledger.at_least(RATE_LIMIT_USE, subject, IN_USE)
    instances, limit = ledger.need(INSTANCES, subject), ledger.evidence.read(RATE_LIMIT, subject)
    ledger.compare(
        RATE_LIMIT.name, limit, Limit(value=instances - 1, unit=Unit.COUNT, because=_BECAUSE), at_least=False
    )
    held = {model: seconds for model, seconds in _held_back(ledger, subject) if (seconds.value or 0.0) > 0}
    saved = sum(held.values(), Reading.of(0.0, Unit.SECONDS, ""))
    if not ledger.worthwhile("queue_without_rate_limiter_saves", subject, saved):
        return Quiet(because="requests would wait about as long without the rate limiter")
    return _finding(ledger, subject, {model: seconds.value or 0.0 for model, seconds in held.items()})


_BECAUSE = "where all instances may execute at once, the limiter holds none back"


def _held_back(ledger: Ledger, subject: Subject) -> Iterator[tuple[str, Reading]]:
    """Yield, per request of the subject, what each model's requests wait beyond what their own instances explain."""
    entry = ledger.entry_of(subject)
    stages = {subject.model or ""}
    if entry is not None and entry.ensemble is not None:
        stages |= set(ledger.evidence.graph(subject.server).ensembles[entry.ensemble].models())
    for one in ledger.evidence.subjects(Scope.MODEL):
        queue = ledger.evidence.read(QUEUE_SECONDS, one)
        if one.server == subject.server and one.model in stages and queue.value and not ledger.evidence.is_engine(one):
            free = queue_of(predict(stage_load(ledger, one)))
            yield one.model or "", queue - free if free.value is not None else Reading.of(0.0, Unit.SECONDS, "")


def _finding(ledger: Ledger, subject: Subject, held: dict[str, float]) -> Fires:
    instances, limit = ledger.need(INSTANCES, subject), ledger.need(RATE_LIMIT, subject)
    use, show = min(ledger.need(RATE_LIMIT_USE, subject), 1.0), Unit.SECONDS.show
    where = max(held, key=held.__getitem__)
    beyond = "" if where == subject.model else f" for {where}: while one waits for the resource, no other model begins"
    return Fires(
        summary=f"the rate limiter lets {limit:.0f} of {instances:.0f} instances of {subject.model} execute at once, "
        f"which do so {Unit.RATIO.show(use)} of the time; requests wait {show(held[where])}{beyond}",
        claims=tuple(Claim(stage=model, phase=Phase.QUEUE, seconds=seconds) for model, seconds in held.items()),
        saved_seconds=sum(held.values()),
        suggestion=_suggestion(ledger, subject, instances),
    )


def _suggestion(ledger: Ledger, subject: Subject, instances: float) -> Suggestion:
    """Return the ways out; the configuration's is only proposed where the configuration is known."""
    config = ledger.evidence.config(subject)
    needs = {one.name: one.count for group in (config.instance_groups if config else ()) for one in group.resources}
    enough = " ".join(f"--rate-limit-resource={name}:{count * instances:.0f}" for name, count in needs.items())
    remove = ConfigChange(model=subject.model or "", settings=(Setting(path=SETTING, value=None),))
    return Suggestion(
        text=f"remove rate_limiter from the instance_group of {subject.model}, or start Triton with "
        f"{enough or '--rate-limit-resource'}; more instances would wait for the same resource",
        change=remove if needs else None,
    )
