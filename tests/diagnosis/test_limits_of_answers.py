"""The numbers at which an answer turns: what is said a little below each, and a little above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.diagnosis.certainty import reason_to_keep_reading
from diagnostics.diagnosis.explanation import Explanation, Verdict, WindowFacts
from diagnostics.diagnosis.symptoms import symptoms
from diagnostics.signals.device import GPU_AT_LIMIT, ON_GPU
from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.neighbours import FOREIGN_SHARE, FOREIGN_STAY, OWN_GPU_SECONDS
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import REQUESTS
from tests.stated_evidence import SUBJECT, StatedEvidence


class Shown(StatedEvidence):
    """Stated evidence of an engine whose row carries its time."""

    def shows_engine_time(self, on: object) -> bool:
        return True


def entry(*, between: float = 0.0, ensemble: str | None = None, requests: float = 100.0) -> Anatomy:
    """Return an entry that takes a second: half a second of work in one stage, and so much between stages."""
    return Anatomy(
        server=SUBJECT.server,
        ensemble=ensemble,
        requests=requests,
        mean_seconds=1.0,
        stages=(Stage(model=SUBJECT.model or "", cells={Phase.COMPUTE: 0.5}),),
        unattributed_seconds=between,
        source="stated",
    )


def stated(readings: Mapping[Signal, float], *anatomy: Anatomy) -> Sequence[str]:
    return [one.text for one in symptoms(Shown(readings), anatomy, {}, ())]


@pytest.mark.parametrize(("signal", "below", "above"), [(ENGINE_WAITING, 0.95, 1.05), (GPU_AT_LIMIT, 0.31, 0.36)])
def test_a_reading_is_a_sign_of_trouble_from_its_limit_on(signal: Signal, below: float, above: float) -> None:
    assert stated({signal: below}) == []
    assert len(stated({signal: above})) == 1


@pytest.mark.parametrize(("between", "count"), [(0.48, 0), (0.52, 1)])
def test_most_of_the_time_between_stages_is_reported(between: float, count: int) -> None:
    assert len(stated({ENGINE_WAITING: 0}, entry(between=between, ensemble="e"))) == count


@pytest.mark.parametrize(("own", "count"), [(40.5, 0), (39.5, 1)])
def test_a_process_that_may_cost_a_tenth_is_reported(own: float, count: int) -> None:
    """A hundred requests compute for 50 s, of which the card works so many for them; the rest may be the process's."""
    readings = {FOREIGN_SHARE: 0.5, FOREIGN_STAY: 1.0, OWN_GPU_SECONDS: own, ON_GPU: 1}

    assert len(stated(readings, entry())) == count


@pytest.mark.parametrize(
    ("seconds", "execution", "enough"), [(9.5, 0.1, False), (10.5, 0.1, True), (60.0, 3.1, False), (60.0, 2.9, True)]
)
def test_a_window_is_long_enough_from_its_limits_on(seconds: float, execution: float, enough: bool) -> None:
    explanation = Explanation(
        window=WindowFacts(start=0.0, end=seconds, sources=()),
        verdict=Verdict.HEALTHY,
        reason="",
        layer=None,
        findings=(),
        symptoms=(),
        anatomy=(entry(),),
        blind_spots=(),
        results=(),
        evidence=StatedEvidence({REQUESTS: 100, EXECUTION_SECONDS: execution}),
    )

    assert (reason_to_keep_reading(explanation, explanation) == "") is enough
