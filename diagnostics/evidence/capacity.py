"""What keeps configured instances from being capacity: checks name it, and forecasts must not ignore it."""

from __future__ import annotations

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import Limit
from diagnostics.signals.capacity import LOST_INSTANCES, MOST_AT_ONCE
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.rate_limiter import RATE_LIMIT, RATE_LIMIT_USE, ROUNDING
from diagnostics.signals.subject import Scope, Subject
from diagnostics.units import Unit

IN_USE = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="a resource that is held for 70 % of the time makes who needs it wait longer than it is held (M/G/1)",
)
STRETCHED = Limit(
    value=1.25,
    unit=Unit.RATIO,
    because="executions that take turns last half as long again beside another, which leaves them the rest of its turn "
    "to wait; half of that is what more instances would share already",
)


def is_rate_limited(evidence: Evidence, on: Subject) -> bool:
    """Return whether executions use up what there is of a resource, and no more go on at once than it allows."""
    use, limit = evidence.read(RATE_LIMIT_USE, on), evidence.read(RATE_LIMIT, on)
    if not use.value or use.value < IN_USE.value or limit.value is None:
        return False
    # Where nothing says that the limiter is on, instances that are all busy need no other reason.
    busy, most = evidence.read(INSTANCE_BUSY_SHARE, on), evidence.read(MOST_AT_ONCE, on)
    doubtful = limit.estimated and (busy.value or 0.0) >= IN_USE.value
    return not doubtful and most.low is not None and most.low <= limit.value * ROUNDING


def limiting(evidence: Evidence, server: str) -> Subject | None:
    """Return the model whose resources hold a server's executions back; None where none does."""
    models = (one for one in evidence.subjects(Scope.MODEL) if one.server == server)
    return next((one for one in models if is_rate_limited(evidence, one)), None)


def lost_instances(evidence: Evidence, on: Subject) -> int:
    """Return how many instances execute nothing while requests wait for one; 0 where that is not known."""
    return round(evidence.read(LOST_INSTANCES, on).value or 0.0)


def take_turns(evidence: Evidence, on: Subject) -> bool:
    """Return whether executions last longer beside others, as under a lock; one instance never shows it."""
    stretch = evidence.read(OVERLAP_STRETCH, on)
    return stretch.value is not None and stretch.value >= STRETCHED.value
