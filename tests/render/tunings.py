"""Tunings to render, by hand."""

from __future__ import annotations

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.proposal import CarriedProposal, LoadChange, Move, Test, TunedProposal, patches
from diagnostics.forecast.capacity import Carried, InfeasibilityReport
from diagnostics.forecast.options import Minimize
from diagnostics.forecast.packing import Tenant, packed
from diagnostics.forecast.search import Candidate, Tuning
from diagnostics.forecast.target import LatencyTarget
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, model_config
from tests.forecast.deployments import change
from tests.forecast.performances import performance
from tests.render.forecasts import WINDOW

_COUNT = "instance_group.count"
_WINDOW = "dynamic_batching.max_queue_delay_microseconds"
TARGET = LatencyTarget.parse("p95 < 250ms")
OPEN = Test(rate=38.0, clients=None, items=1, kinds={"safety": "KIND_GPU"})
CLOSED = Test(rate=None, clients=4, items=2, kinds={})


def candidate(mean: float | None, count: int, *, model: str = "safety", width: float = 0.0) -> Candidate:
    """Return so many instances, and the mean that they are forecast to have; twice that is its p95."""
    changes = (change(model, {_COUNT: count}),) if count > 1 else ()
    return Candidate(changes=changes, instances=count, gpu_share=0.4, performance=performance(mean, width=width))


def move(after: int | None, model: str = "safety", path: str = _COUNT, before: int | None = 1) -> Move:
    """Return a change of one setting."""
    return Move(model=model, path=path, before=before, after=after, known=True)


def tuned(
    best: Candidate | None,
    *,
    nearest: Candidate | None = None,
    shortfall: InfeasibilityReport | None = None,
    model: str = "safety",
    packing: bool = False,
    load: LoadChange | None = None,
    test: Test = OPEN,
    target: LatencyTarget = TARGET,
    ensemble: bool = True,
) -> TunedProposal:
    """Return what is said of an answer; its runner-up turns batching on."""
    shown = best or nearest
    moves = (move(shown.instances, model),) if shown is not None and shown.changes else ()
    other = candidate(0.12, 1, model=model)
    tenants = [Tenant(model=model, share=0.6, held=None), Tenant(model="llm", share=0.2, held=8e9, engine=True)]
    return TunedProposal(
        cause=None,
        on=Subject(server=SERVER, ensemble="chat") if ensemble else Subject(server=SERVER, model="safety"),
        window=WINDOW,
        load=load or LoadChange(),
        tuning=Tuning(
            target=target,
            minimize=Minimize.INSTANCES,
            baseline=performance(0.28, width=0.2),
            best=best,
            runners_up=(other,) if best is not None else (),
            nearest=nearest,
            screened=39,
            simulated=2,
            too_large=1,
        ),
        moves=moves,
        others=((move(500, model, _WINDOW, before=None),),) if best is not None else (),
        patches=_patches() if moves and best is not None else (),
        measured_mean=0.283,
        assumptions=("arrivals are independent",),
        shortfall=shortfall,
        packing=packed(tenants, 24e9) if packing else None,
        seconds=1.5,
        test=test,
    )


def short(
    *,
    alone: float | None = 0.1,
    full: float | None = None,
    engine: str | None = None,
    carried: float | None = None,
    slowest: float = 0.09,
    beside: float = 0.0,
) -> InfeasibilityReport:
    """Return why nothing meets an objective."""
    return InfeasibilityReport(
        alone=alone,
        beside=beside,
        slowest="llm",
        slowest_seconds=slowest,
        demanded={} if full is None else {"GPU": full},
        engine=engine,
        carried=carried,
    )


def carried(*factors: float, closed: bool = False) -> CarriedProposal:
    """Return settings of one, two, … instances that carry these multiples of the load."""
    found = tuple(
        Carried(
            changes=(change("safety", {_COUNT: count}),) if count > 1 else (),
            instances=count,
            factor=factor,
            performance=performance(0.12, throughput=38 * factor),
        )
        for count, factor in enumerate(factors, 1)
    )
    return CarriedProposal(
        on=Subject(server=SERVER, ensemble="chat"),
        window=WINDOW,
        load=LoadChange(),
        target=TARGET,
        closed=closed,
        baseline=performance(0.28),
        found=found[::-1],
        moves=tuple((move(one.instances),) if one.changes else () for one in found[::-1]),
        patches=(),
        measured_mean=None,
        assumptions=("arrivals are independent",),
        seconds=1.5,
        test=CLOSED if closed else OPEN,
    )


def _patches() -> tuple[tuple[str, Advice], ...]:
    evidence = SyntheticTriton(models=(Stage("safety", rate=1, config=model_config("safety")),)).evidence(2)
    return patches(evidence, SERVER, (change("safety", {_COUNT: 2}),))
