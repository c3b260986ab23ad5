from __future__ import annotations

from pathlib import Path

import pytest

from tests.prediction.comparing import QUANTITIES, Held, median_error
from tests.prediction.folder import Folder
from tests.prediction.groups import points
from tests.prediction.plan import jobs
from tests.prediction.predicting import predict

RECORDED = Folder(Path(__file__).parents[2] / "fixtures/prediction/points")
# Another count of instances, another window, another number of clients' instances: a few of what `score` takes all of.
NAMES = ("instances.two.1", "windows.us2000.1", "closed.three.1")


@pytest.mark.skipif(not RECORDED.path.exists(), reason="nothing is recorded yet")
def test_recorded_points_are_predicted_from_another_ones_window_as_well_as_aimed_at() -> None:
    known, measured = {job.name: job for job in jobs(points())}, RECORDED.measured()
    sources = {f"{point.group}.{point.name}.1": f"{point.group}.{point.source}.1" for point in points()}
    held = []
    for name in NAMES:
        source = known[sources[name]]
        predicted = predict(RECORDED.capture(source.name), source, known[name], measured[name], draws=1)
        held.append(Held(group="", load="", measured=measured[name], predicted=predicted))

    for quantity in QUANTITIES:
        error = median_error(held, quantity)
        assert error is not None
        assert error <= quantity.goal, quantity.name
