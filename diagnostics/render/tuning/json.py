"""Tunings as JSON, schema version 1; times are seconds and Unix seconds, shares are ratios, memory is bytes."""

from __future__ import annotations

from diagnostics.diagnosis.proposal import CarriedProposal, Move, TunedProposal
from diagnostics.forecast.capacity import InfeasibilityReport
from diagnostics.forecast.packing import Packing
from diagnostics.forecast.search import Candidate
from diagnostics.forecast.target import LatencyTarget
from diagnostics.render.forecast.json import entry_json, moves_json, patches_json, performance_json
from diagnostics.render.json_head import Json, head, schema_text, window_json


def tuned_report(found: TunedProposal) -> Json:
    """Return the tuning as JSON-ready data; `answer` is null where nothing meets the objective, `nearest` where it is.

    Forecasts of runners-up are of one short run and have no intervals.
    """
    one = found.tuning
    others = zip(one.runners_up, found.others, strict=True)
    return {
        **_head("tuning", found, one.target),
        "minimize": one.minimize.value,
        "met": one.best is not None,
        "certain": found.certain,
        "baseline": performance_json(one.baseline),
        "answer": _candidate(one.best, found.moves) if one.best is not None else None,
        "nearest": _candidate(one.nearest, found.moves) if one.nearest is not None else None,
        "runners_up": [_candidate(each, moves) for each, moves in others],
        "shortfall": _shortfall(found.shortfall, one.target) if found.shortfall is not None else None,
        "packing": _packing(found.packing) if found.packing is not None else None,
        "search": {
            "screened": one.screened,
            "simulated": one.simulated,
            "too_large": one.too_large,
            "seconds": found.seconds,
        },
        "assumptions": list(found.assumptions),
        "patches": patches_json(found.patches),
    }


def carried_report(found: CarriedProposal) -> Json:
    """Return the settings by the load that they carry as JSON-ready data, the one that carries most first."""
    settings = [
        {
            "settings": moves_json(moves),
            "instances": one.instances,
            "load_factor": None if found.closed else one.factor,
            "predicted": performance_json(one.performance),
        }
        for one, moves in zip(found.found, found.moves, strict=True)
    ]
    return {
        **_head("capacity", found, found.target),
        "baseline": performance_json(found.baseline),
        "settings": settings,
        "search": {"seconds": found.seconds},
        "assumptions": list(found.assumptions),
        "patches": patches_json(found.patches),
    }


def tuning_schema() -> str:
    """Return the text of the JSON Schema that every tuning meets."""
    return schema_text("tuning")


def _head(kind: str, found: TunedProposal | CarriedProposal, target: LatencyTarget) -> Json:
    return {
        **head(kind),
        "window": window_json(found.window),
        "entry": entry_json(found.on),
        "load": {"rate_factor": found.load.rate_factor, "clients": found.load.clients},
        "objective": {"text": target.text, "statistic": target.statistic, "seconds": target.seconds},
        "measured": {"mean_seconds": found.measured_mean if found.load.same else None},
    }


def _candidate(one: Candidate, moves: tuple[Move, ...]) -> Json:
    return {
        "settings": moves_json(moves),
        "instances": one.instances,
        "gpu_share": one.gpu_share,
        "fits_gpu_memory": one.fits,
        "predicted": performance_json(one.performance),
    }


def _shortfall(one: InfeasibilityReport, target: LatencyTarget) -> Json:
    return {
        "alone_seconds": one.alone,
        "beside_execution_seconds": one.beside,
        "excess_seconds": one.excess(target),
        "slowest_stage": one.slowest,
        "slowest_stage_seconds": one.slowest_seconds,
        "demanded": dict(one.demanded),
        "engine": one.engine,
        "carried_factor": one.carried,
        "replicas": one.replicas,
    }


def _packing(one: Packing) -> Json:
    return {
        "cards": [{"models": list(card.models), "gpu_share": card.share, "bytes": card.held} for card in one.cards],
        "memory_unread": list(one.unread),
        "overfull": list(one.overfull),
    }
