"""Which causes produce which others, in one place.

`caused_by(a, b)` of two findings holds when the table lists it and they are about the same model of the same server, or
the cause is about no model: what happens to an entry or a server happens to all its models. The table has no cycles; a
test holds that. An outage is treated separately: it causes what began in it or after it, and nothing that was there
before. So is a load that requests waited for: they come out of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping

OUTAGE = "model-unavailable"
LOAD = "model-reload-stall"
# consequence -> its possible causes, the likeliest first
CAUSED_BY: Mapping[str, tuple[str, ...]] = {
    "cold-start": (OUTAGE,),
    "model-reload-stall": (OUTAGE,),
    "queue-rejections": (
        "cold-start",
        "scheduler-stall",
        "gpu-saturated",
        "batch-size-collapse",
        "single-instance-serialization",
        "capacity-exceeded",
        "model-reload-stall",
        "execution-hung",
        "bursty-arrivals",
        "host-cpu-starved",
    ),
    "capacity-exceeded": (
        "gpu-saturated",
        "cold-start",
        "version-regression",
        "replica-imbalance",
        "replica-outlier",
    ),
    "gpu-saturated": ("gpu-contended-by-other-process", "gpu-contended-by-colocated-model", "gpu-fault"),
    "gpu-throttled": ("gpu-saturated", "gpu-contended-by-other-process", "gpu-fault"),
    "replica-outlier": ("version-regression",),
    "over-instanced": ("gpu-contended-by-other-process",),
    OUTAGE: ("gpu-memory-pressure", "gpu-fault"),
    "single-instance-serialization": (
        "cold-start",
        "version-regression",
        "replica-imbalance",
        "replica-outlier",
    ),
    "request-failures": (OUTAGE, "execution-hung", "gpu-memory-pressure"),
    "engine-bound": ("bursty-arrivals",),
    "prefill-interference": ("bursty-arrivals",),
}

# What an outage causes through the requests that come when it is over, and that has causes of its own at other times:
# it follows only from when it began, so it is no part of the table.
AFTER_OUTAGE = frozenset(
    {
        "bursty-arrivals",
        "capacity-exceeded",
        "queue-rejections",
        "replica-imbalance",
        "single-instance-serialization",
        "workload-shift",
    }
)

# What requests that were held for a load do to the stages behind it when they come at once.
AFTER_LOAD = frozenset({"bursty-arrivals", "capacity-exceeded", "single-instance-serialization", "workload-shift"})


def follows_load(began: float | None, load_began: float | None) -> bool:
    """Return whether a finding of `AFTER_LOAD` may be what a load brought about: it is known to begin no earlier.

    Args:
        began: Unix seconds at which it began; None where it was so from the start, or nobody knows.
        load_began: the same of the load.

    """
    return began is not None and load_began is not None and began >= load_began


def follows_outage(check: str, began: float | None, outage_began: float | None) -> bool:
    """Return whether a finding may be what an outage brought about: one that was there before it is not.

    Args:
        check: the id of the finding's check.
        began: Unix seconds at which it began; None where it was so from the start, or nobody knows.
        outage_began: the same of the outage.

    """
    if began is None or outage_began is None:
        return check not in AFTER_OUTAGE
    return began >= outage_began


def cause_of(check: str, model: str | None, others: Mapping[tuple[str, str | None], str]) -> str | None:
    """Return the fingerprint of the finding that causes this one, None when none of the others does.

    Args:
        check: the id of the finding's check.
        model: its model.
        others: fingerprints of all findings by (check, model).

    """
    after = (*([OUTAGE] if check in AFTER_OUTAGE else ()), *([LOAD] if check in AFTER_LOAD else ()))
    for cause in (*after, *CAUSED_BY.get(check, ())):
        found = others.get((cause, model)) or others.get((cause, None))
        if found is None and model is None:  # what befalls a card or a server may be some model's doing
            found = next((one for (check_id, _), one in others.items() if check_id == cause), None)
        if found is not None:
            return found
    return None
