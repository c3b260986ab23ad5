"""Writes the dashboards: `python -m dashboards [--check] [--runbooks URL]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from diagnostics.cli.generated_files import update
from diagnostics.errors import not_installed

try:
    from dashboards import anatomy, engine, gpu, model, overview, service, slo
    from dashboards.grafana import RUNBOOKS, text
    from dashboards.layout import DashboardSpec
except ModuleNotFoundError as error:
    sys.exit(f"error: {not_installed(error, 'dashboards', where='python -m dashboards')}")

FOLDER = Path(__file__).parent
BOARDS: tuple[DashboardSpec, ...] = (
    overview.BOARD,
    anatomy.BOARD,
    model.BOARD,
    gpu.BOARD,
    engine.BOARD,
    slo.BOARD,
    service.BOARD,
)


def files(runbooks: str = RUNBOOKS) -> dict[Path, str]:
    """Return the text of each dashboard by its path."""
    return {FOLDER / f"{board.uid}.json": text(board, runbooks) for board in BOARDS}


def main() -> int:
    """Write what changed, or with `--check` list what is stale and return 1."""
    options = argparse.ArgumentParser(prog="python -m dashboards", description="Write the Grafana dashboards.")
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options.add_argument("--runbooks", default=RUNBOOKS, metavar="URL", help="below which runbooks are found")
    requested = options.parse_args()
    wanted = files(requested.runbooks)
    return update(wanted, FOLDER.parent, check=requested.check, present=FOLDER.glob("*.json"))


if __name__ == "__main__":
    sys.exit(main())
