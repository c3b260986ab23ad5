"""A moment of the past judged again, from the bodies that were recorded of it: needs no database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnostics.diagnosis.diagnose import DiagnosisOptions, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.store import raw
from diagnostics.units import time_text
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
    past = raw.newest_scrapes(directory, deployment, at - since - SLACK, at)
    for scrape in past.scrapes:
        rolling.add(scrape)
    unseen = [*blind_spots, *_left_out(past)]
    return diagnose(rolling.window(), DiagnosisOptions(blind_spots=unseen, objective=objective, present=True))


def _left_out(past: raw.Past) -> Iterator[BlindSpot]:
    if past.since is not None:
        yield BlindSpot(
            what=f"the time before {time_text(past.since)}",
            why=f"more than {raw.MOST_BYTES >> 20} MiB were recorded in the time that was asked for",
            fix="ask for less with --since (`since` in the API)",
        )
