"""Requests above a time limit, from the buckets of a histogram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isinf

from diagnostics import names
from diagnostics.slo.growth import growth
from diagnostics.slo.tally import Tally
from diagnostics.window.window import ServerWindow

_BOUND = "le"
HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram: its name, the label that names the model, and seconds per unit of its bounds."""

    name: str
    model: str
    scale: float


# Triton's first response: of a model that answers once, its request time; else the time to its first token. It begins
# with the request, holds the queue, counts failed requests too, and is cut to whole milliseconds (core, 24.11).
FIRST_RESPONSE = (HistogramFamily(names.FIRST_RESPONSE, names.MODEL, 1e-3),)
# Engines' own, which begin when the engine gets the request.
_LABELS = (names.MODEL, names.SERVE_MODEL)
ENGINE_FIRST_TOKEN = tuple(HistogramFamily(name, label, 1.0) for name in names.TIME_TO_FIRST_TOKEN for label in _LABELS)
ENGINE_LATENCY = (
    *(HistogramFamily(names.VLLM_LATENCY, label, 1.0) for label in _LABELS),
    *(HistogramFamily(f"{p}{names.SERVE_LATENCY}", names.SERVE_MODEL, 1.0) for p in names.SERVE_PREFIXES),
)


def above(
    server: ServerWindow,
    families: Iterable[HistogramFamily],
    model: str,
    tags: Mapping[str, str],
    seconds: float,
    after: float,
    until: float,
) -> Tally | None:
    """Return the requests of the first family that the server has; None when it has none of them.

    Where the limit is a bucket's bound each request is counted, to the millisecond. Between two bounds, the requests
    of that bucket may be on either side: all of them make up the interval, and as large a part is taken to be below as
    the limit is far into the bucket (as `histogram_quantile` does). In the last bucket none is taken to be above.
    """
    for family in families:
        labels = {family.model: model, **tags}
        grown = growth(server, f"{family.name}_bucket", labels, after, until)
        if grown is not None:
            return of_buckets(_by_bound(grown, family.scale), seconds)
    return None


def _by_bound(grown: Mapping[tuple[tuple[str, str], ...], float], scale: float) -> dict[float, float]:
    """Return the requests at or below each bound in seconds, over all versions."""
    found: dict[float, float] = defaultdict(float)
    for key, increase in grown.items():
        text = dict(key).get(_BOUND, "")
        try:
            found[float(text) * scale] += increase
        except ValueError:
            continue
    return found


def of_buckets(below: Mapping[float, float], seconds: float) -> Tally:
    """Return the requests above a limit, of the requests at or below each bound, in seconds; see `above`."""
    total = max(below.values(), default=0.0)
    exact = next((bound for bound in below if abs(bound - seconds) <= 1e-9 + 1e-6 * seconds), None)
    if exact is not None:
        return Tally.exact(total, max(total - below[exact], 0.0), HISTOGRAM)
    under = max((bound for bound in below if bound < seconds), default=0.0)
    over = min((bound for bound in below if bound > seconds), default=inf)
    surely, perhaps = below.get(under, 0.0), min(below.get(over, total), total)
    part = 1.0 if isinf(over) else (seconds - under) / (over - under)
    return Tally(
        total=total,
        bad=max(total - surely - part * (perhaps - surely), 0.0),
        low=max(total - perhaps, 0.0),
        high=max(total - surely, 0.0),
        source=HISTOGRAM,
    )
