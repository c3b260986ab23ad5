"""What the tables of odd kinds share: incidents of a shape, odd clients, and the change to more instances."""

from __future__ import annotations

from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import Change, OddIncident
from tests.benchmark.kinds.shapes import Shape

LANES = "single-instance-serialization"


def incident_of(shape: Shape, **values: object) -> OddIncident:
    """Return an incident of a shape."""
    return OddIncident(world=shape.world, loads=shape.loads, **values)  # type: ignore[arg-type]


def asked(shape: Shape, **values: object) -> Shape:
    """Return the shape with its first clients odd."""
    return replace(shape, loads=(odd(shape.loads[0], **values), *shape.loads[1:]))


def more_lanes(incident: OddIncident, name: str, count: int = 3) -> Change:
    """Return the change to so many times as many instances of a model."""
    more = incident.changed(name, instances=count * incident.world.model(name).instances)
    return Change(what=f"instances of {name}", names=(LANES,), incident=more, lanes_of=name)
