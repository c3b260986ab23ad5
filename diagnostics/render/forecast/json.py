"""Forecasts as JSON, schema version 1; times are seconds and Unix seconds, shares are ratios."""

from __future__ import annotations

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.proposal import LoadChange, Move, Proposal, SweepProposal
from diagnostics.forecast.performance import EngineLatency, Estimate, Performance, StagePerformance, saving
from diagnostics.render.forecast.document import cannot_keep_up, setting_text
from diagnostics.render.json_head import Json, head, schema_text, window_json
from diagnostics.signals.signal import Subject

_STATISTICS = ("mean", "p50", "p95", "p99")


def forecast_report(proposal: Proposal) -> Json:
    """Return the forecast of one change as JSON-ready data."""
    found = proposal.forecast
    return {
        **_head("forecast", proposal),
        "measured": {"mean_seconds": found.measured_mean},
        "baseline": performance_json(found.baseline),
        "predicted": performance_json(found.predicted),
        "saving_seconds": estimate_json(saving(found.baseline, found.predicted)),
        "assumptions": list(found.assumptions),
        "patches": patches_json(proposal.patches),
    }


def sweep_report(proposal: SweepProposal) -> Json:
    """Return the forecasts of a sweep as JSON-ready data; `knee` is one of the values, or null."""
    sweep = proposal.sweep
    points = [{"value": point.value, "predicted": performance_json(point.performance)} for point in sweep.points]
    return {
        **_head("sweep", proposal),
        "measured": {"mean_seconds": proposal.measured_mean},
        "baseline": performance_json(proposal.baseline),
        "varied": sweep.name,
        "points": points,
        "now": points[sweep.now]["value"] if sweep.now is not None else None,
        "knee": points[sweep.knee]["value"] if sweep.knee is not None else None,
        "assumptions": list(proposal.assumptions),
        "patches": patches_json(proposal.patches),
    }


def forecast_schema() -> str:
    """Return the text of the JSON Schema that every forecast and sweep meets."""
    return schema_text("forecast")


def performance_json(one: Performance) -> Json:
    """Return what requests to an entry experience; numbers are null, with a reason, where it cannot keep up."""
    return {
        "entry": one.entry,
        "stable": one.stable,
        "reason": cannot_keep_up(one) or None,
        "end_to_end_seconds": _estimates(one, _STATISTICS, ""),
        "throughput_per_second": one.throughput.value,
        "throughput_interval90": _interval(one.throughput),
        "rejected_per_second": one.rejected,
        "stages": [_stage(stage) for stage in one.stages],
        **({"engine": _engine(one.engine)} if one.engine is not None else {}),
    }


def _engine(one: EngineLatency) -> Json:
    """Return what requests experience in an engine."""
    return {
        "estimated": True,
        "first_token_seconds": {"mean": estimate_json(one.first_token), "p95": estimate_json(one.first_token_p95)},
        "per_token_seconds": estimate_json(one.per_token),
        "queue_seconds": estimate_json(one.queue),
        "running": estimate_json(one.running),
        "kv_cache_share": estimate_json(one.cache_share),
        "preemptions_per_request": one.preempted,
    }


def patches_json(patches: tuple[tuple[str, Advice], ...]) -> list[Json]:
    """Return how to apply each model's change."""
    return [
        {
            "model": model,
            "patch": one.patch.text if one.patch else None,
            "patch_base": one.patch.base if one.patch else None,
            "blast_radius": one.blast_radius.value if one.blast_radius else None,
            "note": one.note,
            "touches": one.steps.touches if one.steps else "",
            "apply": one.steps.apply if one.steps else "",
            "undo": one.steps.undo if one.steps else "",
        }
        for model, one in patches
    ]


def moves_json(moves: tuple[Move, ...]) -> list[Json]:
    """Return each setting with its value in effect and after, as texts; null where it is absent or unknown."""
    return [
        {
            "model": move.model,
            "setting": move.path,
            "before": setting_text(move.before) if move.known and move.before is not None else None,
            "after": setting_text(move.after) if move.after is not None else None,
        }
        for move in moves
    ]


def estimate_json(one: Estimate | None) -> Json:
    """Return a number with its interval; nulls where there is none."""
    return {"value": one.value if one else None, "interval90": _interval(one)}


def _head(kind: str, proposal: Proposal | SweepProposal) -> Json:
    return {
        **head(kind),
        "window": window_json(proposal.window),
        "entry": entry_json(proposal.on),
        "settings": moves_json(proposal.moves),
        "load": _load(proposal.load),
    }


def entry_json(on: Subject) -> Json:
    """Return the name of an entry and its server."""
    return {"server": on.server, "name": on.ensemble or on.model or "", "ensemble": on.ensemble is not None}


def _load(load: LoadChange) -> Json:
    return {
        "rate_factor": load.rate_factor,
        "clients": load.clients,
        "prompt_factor": load.prompt_factor,
        "output_factor": load.output_factor,
    }


def _stage(stage: StagePerformance) -> Json:
    return {
        "model": stage.model,
        "stable": stage.stable,
        "queue_seconds": _estimates(stage, ("mean", "p95"), "queue_"),
        "compute_seconds": _estimates(stage, ("mean",), "compute_"),
        "busy_share": stage.busy_share.value,
        "busy_share_interval90": _interval(stage.busy_share),
        "batch_size_mean": stage.batch_size_mean,
        "refused_per_second": stage.refused_per_second,
    }


def _estimates(of: Performance | StagePerformance, names: tuple[str, ...], prefix: str) -> Json:
    found: dict[str, Estimate | None] = {name: getattr(of, f"{prefix}{name}") for name in names}
    values = {name: one.value if one else None for name, one in found.items()}
    return {**values, "interval90": {name: _interval(one) for name, one in found.items()}}


def _interval(one: Estimate | None) -> list[float | None] | None:
    return None if one is None else [one.low, one.high]
