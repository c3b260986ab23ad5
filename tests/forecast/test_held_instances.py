"""What holds instances back is not simulated: no forecast promises a gain from more of them."""

from __future__ import annotations

import pytest

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, model_config


def limited(at_once: float) -> WindowEvidence:
    group = {"kind": "KIND_CPU", "count": 4, "rate_limiter": {"resources": [{"name": "R1", "count": 1}]}}
    config = model_config("safety", groups=[group])
    stage = Stage("safety", rate=at_once / 0.0207, execution=0.0207, queue=0.01, config=config)
    return SyntheticTriton(models=(stage,)).evidence()


def test_a_model_that_the_rate_limiter_holds_back_is_not_forecast() -> None:
    on = Subject(server=SERVER, model="safety")

    with pytest.raises(Unpredictable, match="rate limiter"):
        fit(limited(0.9), on)
    assert fit(limited(0.3), on).entry == "safety"
