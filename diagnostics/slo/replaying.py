"""The events of objectives in recorded or explained windows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import thread_time

from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.validation import ForecastCache
from diagnostics.slo.bins import Bins, BudgetCause, Tally, attributed
from diagnostics.slo.counting import moments, tally
from diagnostics.slo.report import silence_of
from diagnostics.slo.slo import Slo, Triton
from diagnostics.units import time_text
from diagnostics.window.rolling import RollingWindow
from diagnostics.window.window import Window
from diagnostics.wire.records import Scrape

# As long as the windows that a running service judges.
WINDOW_SECONDS = 300.0
# Processor time for windows with causes, each held against forecasts of its own, as `diag explain` does: about 300 of
# them, a day that was slow throughout. Later, a cause that lasts is held against a forecast once in so many seconds.
REPLAY_CPU_SECONDS = 120.0
_FORECAST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvents:
    """What was counted of one objective on one server, from Unix second `after` (exclusive) until `until`."""

    slo: Slo
    server: str
    after: float
    until: float
    tally: Tally
    causes: Mapping[BudgetCause, float]


def count_recorded(
    deployment: str, slos: Sequence[Slo], scrapes: Iterable[Scrape], announce: Callable[[str], None] = lambda _: None
) -> Mapping[str, Bins]:
    """Return the events of each objective, by name, in recorded scrapes.

    Windows of five minutes are judged one after another, each as `diag explain` judges it, within a budget of
    processor time. The bad events of each are put down to what was found in it.

    Args:
        deployment: whose scrapes they are.
        slos: objectives; those over PromQL, and those of other deployments, are left out.
        scrapes: in any order.
        announce: called with how far it is, of what takes long.

    """
    found: dict[str, Bins] = {slo.name: Bins() for slo in slos if of_deployment(slo, deployment)}
    counted = [slo for slo in slos if slo.name in found]
    rolling, reached = RollingWindow(deployment, WINDOW_SECONDS), dict[str, float]()
    judge = _WindowJudge(announce)
    ordered = sorted(scrapes, key=lambda one: one.mono)
    first = ordered[0].mono if ordered else 0.0
    pieces = groupby(ordered, key=lambda one: int((one.mono - first) // (WINDOW_SECONDS - 30.0)))
    for number, piece in pieces:
        for scrape in piece:
            rolling.add(scrape)
        if number and number % 50 == 0:
            announce(f"{deployment}: {number} windows were judged")
        window = rolling.window()
        count_window(counted, window, judge.explained(window), reached, found)
    return found


class _WindowJudge:
    """Explains windows one after another; `announce` is called when forecasts of earlier windows begin to stand in."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce, self._spent, self._forecasts = announce, 0.0, ForecastCache(seconds=0.0)

    def explained(self, window: Window) -> Explanation:
        begun = thread_time()
        found = diagnose(window, DiagnosisOptions(validation=Validation(forecasts=self._forecasts)))
        # Only windows with causes cost forecasts.
        self._spent += thread_time() - begun if found.proven else 0.0
        if self._spent > REPLAY_CPU_SECONDS and self._forecasts.seconds < _FORECAST_SECONDS:
            self._forecasts.seconds = _FORECAST_SECONDS
            self._announce(
                f"forecasts took {REPLAY_CPU_SECONDS:g} s of processor time: from {time_text(window.end)} on, "
                "a cause that lasts is validated once an hour"
            )
        return found


def of_deployment(slo: Slo, deployment: str) -> bool:
    """Return whether an objective is about the requests to a deployment's servers."""
    return isinstance(slo.sli, Triton) and slo.sli.deployment in (None, deployment)


def count_window(
    slos: Sequence[Slo],
    window: Window,
    explanation: Explanation,
    reached: dict[str, float],
    into: Mapping[str, Bins],
    *,
    behind: int = 0,
    whole: bool = True,
) -> list[ServerEvents]:
    """Add what a window shows of each server beyond what was counted of it before; return what was added.

    Args:
        slos: objectives over Triton's requests.
        window: what was read.
        explanation: the verdict on it.
        reached: by server, up to which Unix second it was counted; brought up to date.
        into: the bins of each objective, by name.
        behind: reads that are left for the next time, as spans of their requests may be on their way.
        whole: whether a server that was never counted is counted from the window's beginning on, else from now on.

    """
    added = []
    for name, server in window.servers.items():
        reads = moments(server)
        if not reads:
            continue
        before = reached.setdefault(name, reads[0] if whole else reads[-1])
        if len(reads) < 2 + behind:
            continue
        until = reads[-1 - behind]
        after = min(before, until)
        added += [one for slo in slos if (one := _counted(slo, window, name, (after, until), explanation)) is not None]
        reached[name] = max(until, reached[name])
    for one in added:
        into[one.slo.name].add(one.until, one.tally, one.causes, began=one.after, ended=one.until)
    _look_into_silence(slos, window, {one.slo.name for one in added if one.tally.total > 0}, into)
    return added


def _look_into_silence(slos: Sequence[Slo], window: Window, reported: Container[str], into: Mapping[str, Bins]) -> None:
    for slo in slos:
        if isinstance(slo.sli, Triton):
            into[slo.name].why_none = "" if slo.name in reported else silence_of(slo.sli, window)


def _counted(
    slo: Slo, window: Window, server: str, span: tuple[float, float], explanation: Explanation
) -> ServerEvents | None:
    assert isinstance(slo.sli, Triton)
    events = tally(slo.sli, window, server, *span)
    if events is None:
        return None
    causes = attributed(slo.sli, explanation, server, events)
    return ServerEvents(slo=slo, server=server, after=span[0], until=span[1], tally=events, causes=causes)
