"""Numbers whose moves no test needs to notice, and why."""

from __future__ import annotations

from collections.abc import Mapping

_BOTH = (0.8, 1.2)
_ZERO = "keeps a division from one by zero; any small number does"
_SHOWN = "how much of a text or how many samples are shown decides nothing"
_FAR = "how far a search goes; what lies beyond has no use"
_UNIT = "how many of one unit make another"
# Module and name of the number, by which factors it may move, and why.
EXEMPT: Mapping[tuple[str, str], tuple[tuple[float, ...], str]] = {
    ("checks/bls_serialization.py", "_MOST_TIMES"): (_BOTH, _FAR),
    ("checks/gpu_saturated.py", "_MOST_GPUS"): (_BOTH, _FAR),
    ("checks/instances.py", "MOST_TIMES"): (_BOTH, _FAR),
    ("checks/instances.py", "FINEST_STEP"): (_BOTH, "how finely a search steps moves what it finds by that step only"),
    ("checks/engine_gates.py", "EVICTS"): (_BOTH, "zero stays zero when it is multiplied"),
    ("checks/memory_growth.py", "diagnose: rate * 3600"): (_BOTH, _UNIT),
    ("checks/memory_growth.py", "diagnose: (left.value or 0.0) / 3600"): (_BOTH, _UNIT),
    ("checks/model_unavailable.py", "SHOWN_REASON"): (_BOTH, _SHOWN),
    ("signals/tails.py", "latency_quantile: quantile * 100"): (_BOTH, _UNIT),
    ("evidence/series.py", "MOST_SAMPLES"): (_BOTH, _SHOWN),
    ("signals/arrivals.py", "dispersion: max(sum((one.seconds for one in bins)), (_ := 1e-09))"): (_BOTH, _ZERO),
    ("signals/arrivals.py", "_peak: max(sum((one.seconds for one in bins)), (_ := 1e-09))"): (_BOTH, _ZERO),
    ("signals/mix.py", "_shift: max(spread, (_ := 1e-09))"): (_BOTH, _ZERO),
}
