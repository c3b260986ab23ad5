"""Both tables of a folder, with the machine they came from."""

from __future__ import annotations

from collections.abc import Sequence

from tests.prediction.comparing import Held
from tests.prediction.folder import Folder
from tests.prediction.score import held
from tests.prediction.tables import each_line, machine_line, meets_goals, prediction_lines
from tests.prediction.tuning import ENOUGH, OF_TEN, Tuned, tuned, tuning_lines


def report(
    folder: Folder,
    only: Sequence[str] = (),
    *,
    every: bool = False,
    disturbed: bool = False,
    processes: int | None = None,
) -> tuple[list[str], bool]:
    """Return the lines of the report in Markdown, and whether all that is aimed at was reached.

    Raises:
        UsageError: the folder holds no measurements.

    """
    predictions = held(folder, only, disturbed=disturbed, processes=processes)
    results = tuned(folder, only, processes, disturbed=disturbed)
    noisy = sum(1 for one in folder.measured().values() if one.disturbed)
    what = "were disturbed by other work on the machine"
    about = [
        f"Measured on {machine_line(folder.machine())}{_counted(predictions)}.",
        *([f"{noisy} measurements {what}{'' if disturbed else ', and are left out'}."] if noisy else []),
        "",
    ]
    details = ["", "```", *map(each_line, predictions), "```"] if every else []
    tuning = [*([""] if predictions else []), *tuning_lines(results)] if results else []
    lines = [*about, *(prediction_lines(predictions) if predictions else []), *tuning, *details]
    return lines, _is_enough(predictions, results)


def _counted(predictions: Sequence[Held]) -> str:
    points = {one.measured.name.rsplit(".", 1)[0] for one in predictions}
    return f": {len(predictions)} measurements of {len(points)} points" if predictions else ""


def _is_enough(predictions: Sequence[Held], results: Sequence[Tuned]) -> bool:
    reached = sum(1 for one in results if one.ratio >= ENOUGH)
    return (not predictions or meets_goals(predictions)) and reached * 10 >= OF_TEN * len(results)
