"""Requests that fail."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.draws.base import DURATION, Drawn, healthy_deployment, poisson


def errors(chance: random.Random) -> Drawn:
    rate = chance.uniform(12, 25)
    deployment = replace(healthy_deployment(chance, rate), side=None)
    target = chance.choice(deployment.stages[:-1])
    return Drawn(
        kind="backend-errors",
        deployment=deployment.changed(target.name, fail_every=chance.randint(4, 12)),
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("request-failures",),
    )


def thrown(chance: random.Random) -> Drawn:
    """Executions that throw, which fails every request of their batch."""
    drawn = errors(chance)
    changed = drawn.changed(drawn.target, fail_mode="raise", fail_every=chance.randint(6, 25))
    return replace(changed, kind="backend-throws")


def hung(chance: random.Random) -> Drawn:
    """A stage whose instances, one after another, never come back from an execution."""
    rate = chance.uniform(10, 20)
    deployment = replace(healthy_deployment(chance, rate), side=None)
    target = chance.choice(deployment.stages)
    instances = chance.randint(1, 2)
    executions = round(rate * DURATION * chance.uniform(0.3, 0.45) / instances)
    return Drawn(
        kind="execution-hung",
        deployment=deployment.changed(
            target.name,
            base_ms=chance.uniform(4, 0.4e3 * instances / rate),
            instances=instances,
            max_batch=1,
            delay_us=None,
            hang_after=executions,
        ),
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("execution-hung",),
    )


def broken_version(chance: random.Random) -> Drawn:
    """A new version that cannot be loaded, while the old one goes on serving."""
    rate = chance.uniform(10, 25)
    deployment = healthy_deployment(chance, rate)
    target = chance.choice(deployment.stages)
    reason = chance.choice(("weights are missing", "out of memory", "cannot open the tokenizer", "shape mismatch"))
    return Drawn(
        kind="model-unavailable",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("model-unavailable",),
        release=replace(target, broken=reason),
    )
