"""Which causes produce which others, in one place.

`caused_by(a, b)` of two findings holds when the table lists it and they speak of the same model of the same server, or
the cause speaks of no model: what befalls an entry or a server befalls all its models. The table has no cycles; a test
holds that.
"""

from __future__ import annotations

from collections.abc import Mapping

# consequence -> its possible causes, the likeliest first
CAUSED_BY: Mapping[str, tuple[str, ...]] = {
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
    "over-instanced": ("gpu-contended-by-other-process",),
    "model-unavailable": ("gpu-memory-pressure", "gpu-fault"),
    "single-instance-serialization": (
        "cold-start",
        "version-regression",
        "replica-imbalance",
        "replica-outlier",
    ),
    "request-failures": ("model-unavailable",),
    "engine-bound": ("bursty-arrivals",),
    "prefill-interference": ("bursty-arrivals",),
}


def cause_of(check: str, model: str | None, others: Mapping[tuple[str, str | None], str]) -> str | None:
    """Return the fingerprint of the finding that causes this one, None when none of the others does.

    Args:
        check: the id of the finding's check.
        model: its model.
        others: fingerprints of all findings by (check, model).

    """
    for cause in CAUSED_BY.get(check, ()):
        found = others.get((cause, model)) or others.get((cause, None))
        if found is None and model is None:  # what befalls a card or a server may be some model's doing
            found = next((one for (check_id, _), one in others.items() if check_id == cause), None)
        if found is not None:
            return found
    return None
