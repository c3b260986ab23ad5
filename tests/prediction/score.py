"""Predicts every measurement of a folder and holds one against the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path

from diagnostics.errors import DiagError
from tests.prediction.cards import card_points
from tests.prediction.comparing import Held
from tests.prediction.folder import Folder
from tests.prediction.groups import points
from tests.prediction.measured import Measured
from tests.prediction.plan import REPEATS, Job, Point, job_name, jobs
from tests.prediction.predicting import predict


def held(
    folder: Folder, only: Sequence[str] = (), *, disturbed: bool = False, processes: int | None = None
) -> list[Held]:
    """Return every measurement of a point with its prediction, in the order of the plan; `disturbed` ones if asked.

    Raises:
        UsageError: the folder holds no measurements.

    """
    every, measured = [*points(), *card_points()], folder.measured()
    wanted = [
        (point, measured[name])
        for point in every
        for repeat in range(1, REPEATS + 1)
        if (name := job_name(point, repeat)) in measured and name.startswith(tuple(only) or "")
    ]
    tasks = [(folder.path, point, one) for point, one in wanted if disturbed or not one.disturbed]
    # Tasks of one group read the same windows: a process gets them together.
    batches = [list(batch) for _, batch in groupby(tasks, key=lambda task: task[1].group)]
    if len(batches) < 2 or processes == 1:
        return [one for batch in batches for one in _hold(batch)]
    with ProcessPoolExecutor(max_workers=processes or os.cpu_count()) as pool:
        return [one for batch in pool.map(_hold, batches) for one in batch]


def _hold(tasks: Sequence[tuple[Path, Point, Measured]]) -> list[Held]:
    known = {job.name: job for job in jobs([*points(), *card_points()])}
    return [_held(Folder(path), point, measured, known) for path, point, measured in tasks]


def _held(folder: Folder, point: Point, measured: Measured, known: Mapping[str, Job]) -> Held:
    source = known[f"{point.group}.{point.source}.1"]
    predicted, refused = None, ""
    capture = folder.capture(source.name)
    if capture.exists():
        try:
            predicted = predict(capture, source, known[measured.name], measured)
        except DiagError as error:
            refused = str(error)
    else:
        refused = f"{source.name}: its window is not there"
    return Held(
        group=point.group,
        load=str(point.load),
        measured=measured,
        predicted=predicted,
        refused=refused,
        on_card=point.cards > 0,
    )
