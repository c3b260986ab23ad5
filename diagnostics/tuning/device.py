"""What more instances bring on a device that they share."""

from __future__ import annotations

from dataclasses import replace

from diagnostics.tuning.stage import StageLoad, stage_capacity

# Items per second below which nothing can be said about the device's time per item.
_TRICKLE = 1e-6


def headroom_limited(load: StageLoad, headroom: tuple[float, float] | None) -> StageLoad:
    """Return the load with the device's time per item noted, so that further instances are not free.

    `load` is the stage as measured; change `instances` of what is returned. `headroom` is the least and
    most share of the device that is unused now, None when unknown (then only the measured count is noted).
    Throughput can grow at most by `1 / (1 - headroom)`; executions that share the device slow each other
    down as in a closed network of a processor-sharing station and think time (Schweitzer's approximation of
    mean value analysis).
    """
    served = min(load.arrival_rate, stage_capacity(load))
    noted = replace(load, measured_instances=load.instances, measured_rate=served)
    if headroom is None or served < _TRICKLE:
        return noted
    least, most = (min(max(share, 0.0), 1.0) for share in headroom)
    return replace(noted, device_seconds=((1 - most) / served, (1 - least) / served))


def capacity(load: StageLoad) -> float:
    """Return items per second that instances and device allow; the device's part is in `device_seconds`."""
    device = load.device_seconds[0]
    return min(stage_capacity(load), 1 / device) if device > 0 else stage_capacity(load)


def on_device(load: StageLoad, demand: float) -> StageLoad:
    """Return the load at one device demand per item, its service stretched by the other instances' use."""
    noted = replace(load, device_seconds=(demand, demand))
    if demand <= 0:
        return noted
    execution = demand * load.service.pivot
    served = load.arrival_rate if load.measured_rate is None else load.measured_rate
    before = _shared(execution, served * demand, load.measured_instances or load.instances)
    after = _shared(execution, load.arrival_rate * demand, load.instances)
    alone = max(load.service.time(load.service.pivot) - before, 0.0)
    return replace(noted, service=load.service.scaled((alone + after) / (alone + before)))


def _shared(execution: float, busy: float, instances: int) -> float:
    """Return the seconds that an execution's device seconds take while the other instances use the device.

    `busy` is the device's share of time in use; at worst all the instances are on it at once.
    """
    others = busy * (instances - 1) / instances
    crowd = instances * execution
    return crowd if others >= 1 else min(execution / (1 - others), crowd)
