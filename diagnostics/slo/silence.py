"""Why nothing is known of an objective, and what to do: a wrong name, labels that no series has, or no traffic."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics import names
from diagnostics.slo.counting import counts_failures
from diagnostics.slo.slo import Promise, Triton
from diagnostics.window.window import Window

# More names than these are no help in a line.
_MOST_NAMES = 8
NOTHING_COUNTED = "nothing was counted in that time; look at its name, its deployment and the period"


def silence_of(sli: Triton, window: Window) -> str:
    """Return why a window tells of no events of an objective, and what to do."""
    models = {model for server in window.servers.values() for model, _ in server.keys_seen()}
    if not models:
        return "no counters of any model were read; let Triton's metrics page (port 8002) be read, or its statistics"
    if sli.model not in models:
        return missing(sli.model, sorted(models))
    if sli.promise is Promise.AVAILABILITY and not counts_failures(sli, window):
        return uncounted(sli.model)
    tags = ", ".join(f"{name}={value}" for name, value in sli.tags)
    also = f" with {tags}, or no series has these labels (Triton's metric_tags)" if tags else ""
    return f"no request to {sli.model} ended between two reads{also}; look again while it is called"


def uncounted(model: str) -> str:
    """Return that nothing counts failures, and what to do."""
    return (
        f"failures of {model} are not counted, so none of its requests is known to be good; keep "
        f"{names.REQUEST_FAILURE} when pages are scraped, or let the statistics be read"
    )


def missing(model: str, there: Sequence[str]) -> str:
    """Return that no server has a model, and which ones there are."""
    return f"no server has a model {model!r}; there is {_some(there)}"


def untagged(model: str, name: str, value: str, there: Sequence[str]) -> str:
    """Return that no series of a model has a label with a value, and which values there are."""
    if not there:
        return f"no series of {model} has a label {name}; look at its name, and at Triton's metric_tags"
    return f"no series of {model} has {name}={value!r}; there is {_some(there)}"


def _some(there: Sequence[str]) -> str:
    return ", ".join(there[:_MOST_NAMES]) + (", …" if len(there) > _MOST_NAMES else "")
