"""`python -m tests.prediction run|score|pack|engines`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from diagnostics.demo.environment import ensure_environment
from diagnostics.errors import DiagError
from tests.prediction.backlog import Backlog
from tests.prediction.cards import card_points
from tests.prediction.folder import Folder
from tests.prediction.groups import points
from tests.prediction.plan import POINT_SECONDS, Job, jobs
from tests.prediction.readme import ENGINES, write_block
from tests.prediction.running import GPU_PROCESSORS, Cards, card_shares, cards_of, measure_all, shares
from tests.prediction.sweeps import sweeps

FOLDER = Path(".bench-prediction")
PACKED = tuple(Path("fixtures/prediction") / name for name in ("points", "sweeps", "gpu", "cards", "card_engine"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prediction", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run", help="measure on a real Triton what is not yet in the folder")
    running.add_argument("--folder", type=Path, default=FOLDER)
    running.add_argument("--budget", type=float, help="minutes; what is left is measured by the next run")
    running.add_argument("--only", action="append", default=[], help="measurements whose name begins so; repeatable")
    running.add_argument("--cpus", type=_cpus, help="processors to use, as 0-7,12; by default all")
    running.add_argument("--parallel", type=int, default=1, help="servers at once; each wants two processors")
    running.add_argument("--every-window", action="store_true", help="keep what a predictor reads of all of them")
    running.add_argument("--seconds", type=float, default=POINT_SECONDS, help="measured of each point")
    scoring = verbs.add_parser("score", help="predict what folders hold, and print how far off that is")
    scoring.add_argument("folders", type=Path, nargs="*", default=PACKED)
    scoring.add_argument("--only", action="append", default=[], help="measurements whose name begins so; repeatable")
    scoring.add_argument("--every", action="store_true", help="a line for each measurement as well")
    scoring.add_argument("--disturbed", action="store_true", help="also what other work on the machine disturbed")
    scoring.add_argument("--jobs", type=int, help="processes; by default as many as processors")
    scoring.add_argument("--readme", type=Path, help="write the tables between its two markers")
    packing = verbs.add_parser("pack", help="write what scoring needs of a folder into another one, as few files")
    packing.add_argument("folder", type=Path)
    packing.add_argument("into", type=Path)
    engines = verbs.add_parser("engines", help="predict each recorded pair of a real engine from its first recording")
    engines.add_argument("folders", type=Path, nargs="*", help="as tests.benchmark.engine writes them, or packed")
    engines.add_argument("--only", action="append", default=[], help="pairs with a recording of this name; repeatable")
    engines.add_argument("--jobs", type=int, help="processes; by default as many as processors")
    engines.add_argument("--readme", type=Path, help="write the tables between its two markers")
    arguments = parser.parse_args()
    try:
        return {"run": _run, "score": _score, "pack": _pack, "engines": _engines}[arguments.verb](arguments)
    except DiagError as error:
        print(error, file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    folder = Folder(arguments.folder)
    every = shares(arguments.cpus or sorted(os.sched_getaffinity(0)), arguments.parallel)
    cards = cards_of(ensure_environment()) if len(every[0]) >= GPU_PROCESSORS else Cards()
    most = len(card_shares(cards.numbers, len(every))[0])
    wanted = [job for job in _jobs(arguments.seconds) if _is_wanted(job, arguments.only)]
    able = [job for job in wanted if job.cards <= most]
    missing = [job for job in able if not folder.has(job.name)]
    backlog = Backlog(missing, None if arguments.budget is None else arguments.budget * 60)
    failed = measure_all(folder, backlog, every, cards, every_window=arguments.every_window)
    left = len(backlog.left())
    print(f"{len(missing) - left - failed} measured, {failed} failed, {left} left, {len(able) - len(missing)} before")
    if len(able) < len(wanted):
        print(
            f"{len(wanted) - len(able)} need more GPUs, torch, or {GPU_PROCESSORS} processors a server: see --parallel"
        )
    return 1 if failed else 0


def _jobs(seconds: float) -> list[Job]:
    return [*jobs([*points(), *card_points()], seconds), *(job for sweep in sweeps() for job in sweep.jobs())]


def _score(arguments: argparse.Namespace) -> int:
    # Fitting and simulating are imported only here: a machine that measures needs none of it.
    from tests.prediction.report import report

    reports = [
        report(
            Folder(folder),
            arguments.only,
            every=arguments.every,
            disturbed=arguments.disturbed,
            processes=arguments.jobs,
        )
        for folder in arguments.folders
    ]
    lines = [line for some, _ in reports for line in (*some, "")][:-1]
    for line in lines:
        print(line)
    if arguments.readme is not None:
        write_block(arguments.readme, lines)
    return 0 if all(enough for _, enough in reports) else 1


def _pack(arguments: argparse.Namespace) -> int:
    Folder(arguments.folder).pack(arguments.into, [job.name for job in _jobs(POINT_SECONDS) if job.kept])
    return 0


def _engines(arguments: argparse.Namespace) -> int:
    from tests.prediction.engines import FOLDERS, engine_lines, pairs, recordings, results

    found = pairs(recordings(arguments.folders or FOLDERS))
    wanted = [pair for pair in found if not arguments.only or set(pair.names) & set(arguments.only)]
    lines = list(engine_lines(results(wanted, arguments.jobs)))
    for line in lines:
        print(line)
    if arguments.readme is not None:
        write_block(arguments.readme, lines, ENGINES)
    return 0


def _is_wanted(job: Job, only: Sequence[str]) -> bool:
    return not only or job.name.startswith(tuple(only))


def _cpus(text: str) -> list[int]:
    """Return the processors that a list such as `0-7,12` names."""
    ranges = [part.partition("-") for part in text.split(",")]
    return sorted({cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)})


if __name__ == "__main__":
    sys.exit(main())
