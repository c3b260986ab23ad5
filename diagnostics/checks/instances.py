"""What more instances on the same device would do, for the checks that weigh them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.evidence.load import stage_load
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.subject import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import StageForecast, StageLoad, headroom_limited, predict

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


def is_short(see: Ledger, on: Subject) -> bool:
    """Return whether the instances cannot do what is offered, refused requests included; not known counts as no."""
    try:
        return not predict(stage_load(see, on)).stable
    except Undecided:
        return False


def scaling(see: Ledger, on: Subject, measured_seconds: float) -> Scaling:
    """Return what instance counts up to eight times the present one would do.

    Args:
        see: the ledger of the check that asks.
        on: the model version.
        measured_seconds: what a request spends in queue and execution now.

    """
    load, headroom = stage_load(see, on), see.evidence.read(DEVICE_HEADROOM, on)
    room = None if headroom.low is None or headroom.high is None else (headroom.low, headroom.high)
    limited = headroom_limited(load, room)
    favourable = headroom_limited(load, (room[1], room[1])) if room else limited
    counts = range(load.instances + 1, load.instances * MOST_TIMES + 1, max(load.instances // FINEST_STEP, 1))
    forecasts = {count: predict(replace(limited, instances=count)) for count in counts}
    stable = {count: _seconds(forecast) for count, forecast in forecasts.items() if forecast.stable}
    best = min(stable.values(), default=measured_seconds)
    gain = measured_seconds - best
    enough = [count for count, seconds in stable.items() if measured_seconds - seconds >= ENOUGH_OF_GAIN * gain > 0]
    count = min(enough, default=load.instances)
    return Scaling(
        load=load,
        now=predict(load),
        count=count,
        forecast=forecasts.get(count),
        most=max(
            (predict(replace(favourable, instances=count)) for count in counts),
            key=lambda forecast: forecast.capacity_per_second,
        ),
    )


def instances_change(see: Ledger, on: Subject, now: int, wanted: int) -> tuple[str, ConfigChange | None]:
    """Return in words, and as a change, how a model gets from `now` instances to about `wanted`.

    A count is per GPU that its group lists, and one value is written for every group: where these make several
    instances of it, the count is what makes at least as many (or at most, of fewer) than wanted. None where groups
    differ, or where only fewer GPUs would make as few.
    """
    config = see.evidence.config(on)
    counts = {group.count for group in config.instance_groups if not group.passive} if config else {now}
    count = min(counts, default=1)
    times, rest = divmod(now, count)
    if len(counts) > 1 or rest or not times:
        return f"instance_group counts of {on.model} from {now} to {wanted} instances in all", None
    to = ceil(wanted / times) if wanted > now else max(wanted // times, 1)
    if to == count:
        return f"the instances of {on.model} from {now} to {wanted}, on fewer GPUs", None
    change = ConfigChange(model=on.model or "", settings=(Setting(path="instance_group.count", value=to),))
    each = f" ({times} instances each: {now} to {to * times})" if times > 1 else ""
    return f"instance_group count of {on.model} from {count} to {to}{each}", change


def _seconds(forecast: StageForecast) -> float:
    return (forecast.queue_seconds or 0.0) + forecast.compute_seconds
