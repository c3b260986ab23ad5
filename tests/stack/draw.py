"""Draws each dashboard from the data of a running stack, with an ordinary plotting library, to be looked at.

    python -m tests.stack.draw FOLDER

Writes a picture per dashboard: every panel at its place, with its title, its unit and the series that Grafana would ask
for.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

from dashboards.__main__ import BOARDS
from dashboards.layout import COLUMNS, DashboardSpec, GridPosition, Panel, PanelKind, flow
from tests.soak.running import until
from tests.stack.prometheus import Prometheus
from tests.stack.stack import running_stack
from tests.stack.test_stack import TICKET, as_grafana_asks, empty_panels

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# Inches of a column and of a row of Grafana's grid.
_COLUMN, _ROW = 0.8, 0.36
_SECONDS = 60.0
_MOST_SERIES = 8


def draw(board: DashboardSpec, prometheus: Prometheus, file: Path) -> None:
    """Write one dashboard as a picture."""
    places, top = [], 0
    for section in board.sections:
        top += 1
        placed = list(flow(section.panels, top))
        places += placed
        top = max(place.y + place.height for _, place in placed)
    figure = plt.figure(figsize=(COLUMNS * _COLUMN, top * _ROW))
    figure.suptitle(board.title)
    for panel, place in places:
        axes = figure.add_axes(_box(place, top))
        axes.set_title(f"{panel.title} ({panel.unit.value})", fontsize=8, loc="left")
        axes.tick_params(labelsize=6)
        (_flat if panel.kind in (PanelKind.TABLE, PanelKind.NUMBER, PanelKind.BARS) else _lines)(
            axes, panel, prometheus
        )
    figure.savefig(file, dpi=70)
    plt.close(figure)


def _box(place: GridPosition, rows: int) -> tuple[float, float, float, float]:
    left, width = (place.x + 1.2) / COLUMNS, (place.width - 1.6) / COLUMNS
    bottom = 1 - (place.y + place.height - 0.9) / rows
    return left, bottom, width, (place.height - 2.2) / rows


def _lines(axes: Any, panel: Panel, prometheus: Prometheus) -> None:
    now = time.time()
    requested = {"start": f"{now - _SECONDS}", "end": f"{now}", "step": "1"}
    series = []
    for query in panel.queries:
        found = prometheus.ask("query_range", query=as_grafana_asks(query.expr), **requested)["result"]
        series += [(_name(one["metric"], query.legend), one["values"]) for one in found]
    for name, values in series[:_MOST_SERIES]:
        axes.plot([at - now for at, _ in values], [float(value) for _, value in values], label=name, linewidth=1)
    if panel.states:
        axes.set_yticks(list(panel.states), [word for word, _ in panel.states.values()])
    lowest = min((float(value) for _, values in series for _, value in values), default=0.0)
    axes.set_ylim(bottom=min(lowest, 0.0) if panel.least is None else panel.least, top=panel.most)
    axes.legend(fontsize=5, loc="upper left", framealpha=0.4)


def _flat(axes: Any, panel: Panel, prometheus: Prometheus) -> None:
    axes.axis("off")
    lines = []
    for query in panel.queries:
        found = prometheus.query(as_grafana_asks(query.expr))[:_MOST_SERIES]
        lines += [f"{float(one['value'][1]):.4g}  {_name(one['metric'], query.legend)}" for one in found]
    axes.text(0, 1, "\n".join(lines), va="top", fontsize=6, family="monospace")


def _name(labels: dict[str, str], legend: str) -> str:
    for label, value in labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    # Grafana puts nothing for a label that a series has not.
    legend = re.sub(r"\{\{\w+\}\}", "", legend)
    return legend or " ".join(value for label, value in labels.items() if label not in ("__name__", "job", "instance"))


def main() -> int:
    """Run the stack, wait until every panel has data, and write the pictures."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with running_stack(Path(tempfile.mkdtemp())) as stack:
        until(lambda: TICKET in stack.prometheus.firing(), 60, "the cause's alert")
        until(lambda: not empty_panels(stack), 60, "data in every panel")
        for board in BOARDS:
            draw(board, stack.prometheus, folder / f"{board.uid}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
