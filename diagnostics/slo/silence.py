"""Why nothing is known of an objective, and what to do: a wrong name, labels that no series has, or no traffic."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.slo.slo import Triton
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
    tags = ", ".join(f"{name}={value}" for name, value in sli.tags)
    also = f" with {tags}, or no series has these labels (Triton's metric_tags)" if tags else ""
    return f"no request to {sli.model} ended between two reads{also}; look again while it is called"


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
