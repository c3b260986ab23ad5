"""Deployments that a search can change: known to the last number, or as recorded."""

from __future__ import annotations

import json
from dataclasses import replace

from diagnostics.forecast import search
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.target import LatencyTarget
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop, Resource
from diagnostics.wire.model_config import parse_model_config
from tests.builders import model_config
from tests.forecast.deployments import by_hand

# A minute and more of two stages at 20 requests per second: these settings are told apart by then.
VISITS = 2_500


def tunable(*models: Model, traffic: OpenLoop | ClosedLoop | None = None, gpu: bool = False) -> Fitted:
    """Return a chain of models with their configurations; on a GPU, each execution takes what its demand says."""
    fitted = by_hand(*models, traffic=traffic, resources=(Resource(name="GPU"),) if gpu else ())
    configs = {
        one.name: parse_model_config(
            json.dumps(
                model_config(
                    one.name,
                    max_batch=one.max_batch,
                    groups=({"kind": "KIND_GPU" if gpu else "KIND_CPU", "count": one.instances},),
                    batching=None if one.batcher is None else {},
                )
            ).encode()
        )
        for one in models
    }
    return replace(fitted, configs=configs)


def tune(fitted: Fitted, target: LatencyTarget, **more: object) -> search.Tuning:
    """Search with runs that are long enough to tell settings apart."""
    return search.tune(fitted, target, visits=VISITS, **more)  # type: ignore[arg-type]
