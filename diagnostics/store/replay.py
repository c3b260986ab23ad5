"""A moment of the past judged again, from the bodies that were recorded of it: needs no database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from diagnostics.diagnosis.diagnose import DiagnosisOptions, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.store import raw
from diagnostics.window.rolling import SLACK, RollingWindow
from diagnostics.wire.records import Scrape


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
    found = raw.scrapes(directory, deployment, at - since - SLACK, at)
    return explain_scrapes(deployment, found, since, objective, blind_spots)


def explain_scrapes(
    deployment: str,
    scrapes: Iterable[Scrape],
    seconds: float,
    objective: Objective | None = None,
    blind_spots: Sequence[BlindSpot] = (),
) -> Explanation:
    """Return the verdict on the newest `seconds` of some scrapes in time order."""
    rolling = RollingWindow(deployment, seconds)
    for scrape in scrapes:
        rolling.add(scrape)
    return diagnose(rolling.window(), DiagnosisOptions(blind_spots=blind_spots, objective=objective, present=True))
