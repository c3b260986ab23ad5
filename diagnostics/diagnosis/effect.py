"""What a finding's suggestion would do to the requests of its entry, or why that cannot be told."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.checks.check import Prediction
from diagnostics.forecast.performance import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """What requests to one entry experience now and with the suggestion; seconds, by the server's own clock.

    Attributes:
        entry: the ensemble or model that is called.
        now_mean: measured in the window.
        now_p95: measured in the window; None without traces.
        mean: forecast, with its 90 % interval.
        p95: forecast; None where `now_p95` is, since there would be nothing to set it against.
        stage: the forecast of the suggestion's own stage; None where it has none.
        simulated: False where closed forms were used alone, whose interval does not hold a window's luck.
        assumptions: what the numbers rest on, one sentence each.
        doubt: why they are to be trusted less; empty where nothing speaks against them.

    """

    entry: str
    now_mean: float
    now_p95: float | None
    mean: Estimate
    p95: Estimate | None
    stage: Prediction | None
    simulated: bool
    assumptions: tuple[str, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredicted:
    """The suggestion's effect end to end cannot be predicted.

    Attributes:
        because: why.
        overrules: whether it is a forecast that says so, against the check's own prediction for its stage.

    """

    because: str
    overrules: bool = False


Effect = EndToEnd | Unpredicted
