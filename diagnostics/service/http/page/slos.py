"""How the objectives stand: what is left of each budget, how fast it burns, and what took it."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.render.slo import document
from diagnostics.service.http.api import slo_reports
from diagnostics.service.http.context import WebContext
from diagnostics.slo.report import SloReport, Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSlo:
    """A report, its tone, and each cause that took some of the budget with its share in words."""

    report: SloReport
    tone: str
    spent: tuple[tuple[str, Spent], ...]
    unexplained: str


def shown_slos(context: WebContext) -> list[ShownSlo]:
    """Return the objectives, what is an alert first, then those with the least budget left.

    Raises:
        SQLAlchemyError: the history's database is away.

    """
    return sorted(map(_shown, slo_reports(context)), key=_rank)


def _rank(one: ShownSlo) -> tuple[bool, float, str]:
    left = one.report.left
    return not one.report.alerts, 1.0 if left is None else left, one.report.slo.name


def _shown(report: SloReport) -> ShownSlo:
    bad = report.tally.bad > 0
    *took, rest = document.shares([*(one.share for one in report.spent), report.unexplained]) if bad else [""]
    return ShownSlo(
        report=report,
        tone=_tone(report),
        spent=tuple(zip(took, report.spent, strict=True)) if bad else (),
        unexplained=rest if report.unexplained > 0 else "",
    )


def _tone(report: SloReport) -> str:
    if report.alerts:
        return "critical" if any(one.severity == "page" for one in report.alerts) else "warning"
    if report.left is None:
        return "quiet"
    return "warning" if report.left <= 0 else "healthy"
