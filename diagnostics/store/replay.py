"""A moment of the past judged again, from the bodies that were recorded of it: needs no database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnostics.diagnosis.diagnose import DiagnosisOptions, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.store import raw
from diagnostics.window.rolling import SLACK, RollingWindow


def explain_at(
    directory: Path,
    deployment: str,
    at: float,
    since: float,
    objective: Objective | None = None,
    blind_spots: Sequence[BlindSpot] = (),
) -> Explanation:
    """Return the verdict on a deployment's window that ended at Unix second `at` and was `since` seconds long.

    It is the one that the service gave then, if its window was as long: both judge the same bodies in the same way.
    Where nothing was recorded its window starts and ends at 0.
    """
    rolling = RollingWindow(deployment, since)
    for scrape in raw.scrapes(directory, deployment, at - since - SLACK, at):
        rolling.add(scrape)
    return diagnose(rolling.window(), DiagnosisOptions(blind_spots=blind_spots, objective=objective, present=True))
