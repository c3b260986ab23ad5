"""What more instances bring on a device that they share."""

from __future__ import annotations

from dataclasses import replace

from diagnostics.tuning.stage import StageLoad, stage_capacity


def headroom_limited(load: StageLoad, headroom: tuple[float, float] | None) -> StageLoad:
    """Return the load with the device's time per item noted, so that further instances are not free.

    `load` is the stage as measured; change `instances` of what is returned. `headroom` is the least and
    most share of the device that is unused now, None when unknown (then only the measured count is noted).
    Throughput can grow at most by `1 / (1 - headroom)`; executions that share the device slow each other
    down as in a closed network of a processor-sharing station and think time (Schweitzer's approximation of
    mean value analysis).
    """
    if headroom is None:
        return replace(load, measured_instances=load.instances)
    served = min(load.arrival_rate, stage_capacity(load))
    least, most = (min(max(share, 0.0), 1.0) for share in headroom)
    demand = ((1 - most) / served, (1 - least) / served) if served > 0 else (0.0, 0.0)
    return replace(load, measured_instances=load.instances, device_seconds=demand)


def capacity(load: StageLoad) -> float:
    """Return items per second that instances and device allow; the device's part is in `device_seconds`."""
    device = load.device_seconds[0]
    return min(stage_capacity(load), 1 / device) if device > 0 else stage_capacity(load)


def on_device(load: StageLoad, demand: float) -> StageLoad:
    """Return the load at one device demand per item, its service stretched by the other instances' use."""
    measured = load.measured_instances or load.instances
    noted = replace(load, device_seconds=(demand, demand))
    if demand <= 0 or measured == load.instances:
        return noted
    before, after = (_shared(load.arrival_rate, demand, count) for count in (measured, load.instances))
    alone = max(load.service.time(1) - before, 0.0)
    factor = (alone + after) / (alone + before)
    return replace(noted, service=load.service.scaled(factor))


def _shared(rate: float, demand: float, instances: int) -> float:
    """Return the seconds that `demand` device seconds take while the other instances use the device too."""
    others = rate * demand * (instances - 1) / instances
    return demand / (1 - min(others, 0.99))
