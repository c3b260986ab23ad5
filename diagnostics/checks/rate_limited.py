"""Executions that Triton's rate limiter holds back, for the checks that weigh a lack of instances."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Fires, Quiet, Suggestion
from diagnostics.checks.predictions import queue_of
from diagnostics.evidence.capacity import IN_USE
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.evidence.load import stage_load
from diagnostics.signals.rate_limiter import RATE_LIMIT, RATE_LIMIT_USE
from diagnostics.signals.reading import Reading
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import predict
from diagnostics.units import Unit

SETTING = "instance_group.rate_limiter"


def with_more_of_the_resource(see: Ledger, on: Subject) -> Fires | Quiet:
    """Decide what is gained where the limiter lets all instances execute at once."""
    see.at_least(RATE_LIMIT_USE, on, IN_USE)
    instances, limit = see.need(INSTANCES, on), see.evidence.read(RATE_LIMIT, on)
    see.compare(RATE_LIMIT.name, limit, Limit(value=instances - 1, unit=Unit.COUNT, because=_BECAUSE), at_least=False)
    held = {model: seconds for model, seconds in _held_back(see, on) if (seconds.value or 0.0) > 0}
    saved = sum(held.values(), Reading.of(0.0, Unit.SECONDS, ""))
    if not see.worthwhile("queue_without_rate_limiter_saves", on, saved):
        return Quiet(because="requests would wait about as long without the rate limiter")
    return _finding(see, on, {model: seconds.value or 0.0 for model, seconds in held.items()})


_BECAUSE = "where all instances may execute at once, the limiter holds none back"


def _held_back(see: Ledger, on: Subject) -> Iterator[tuple[str, Reading]]:
    """Yield, per request of the subject, what each model's requests wait beyond what their own instances explain."""
    entry = see.entry_of(on)
    stages = {on.model or ""}
    if entry is not None and entry.ensemble is not None:
        stages |= set(see.evidence.graph(on.server).ensembles[entry.ensemble].models())
    for one in see.evidence.subjects(Scope.MODEL):
        queue = see.evidence.read(QUEUE_SECONDS, one)
        if one.server == on.server and one.model in stages and queue.value and not see.evidence.is_engine(one):
            free = queue_of(predict(stage_load(see, one)))
            yield one.model or "", queue - free if free.value is not None else Reading.of(0.0, Unit.SECONDS, "")


def _finding(see: Ledger, on: Subject, held: dict[str, float]) -> Fires:
    instances, limit = see.need(INSTANCES, on), see.need(RATE_LIMIT, on)
    use, show = min(see.need(RATE_LIMIT_USE, on), 1.0), Unit.SECONDS.show
    where = max(held, key=held.__getitem__)
    beyond = "" if where == on.model else f" for {where}: while one waits for the resource, no other model begins"
    return Fires(
        summary=f"the rate limiter lets {limit:.0f} of {instances:.0f} instances of {on.model} execute at once, which "
        f"do so {Unit.RATIO.show(use)} of the time; requests wait {show(held[where])}{beyond}",
        claims=tuple(Claim(stage=model, phase=Phase.QUEUE, seconds=seconds) for model, seconds in held.items()),
        saved_seconds=sum(held.values()),
        suggestion=_suggestion(see, on, instances),
    )


def _suggestion(see: Ledger, on: Subject, instances: float) -> Suggestion:
    """Return the ways out; the configuration's is only proposed where the configuration is known."""
    config = see.evidence.config(on)
    needs = {one.name: one.count for group in (config.instance_groups if config else ()) for one in group.resources}
    enough = " ".join(f"--rate-limit-resource={name}:{count * instances:.0f}" for name, count in needs.items())
    remove = ConfigChange(model=on.model or "", settings=(Setting(path=SETTING, value=None),))
    return Suggestion(
        text=f"remove rate_limiter from the instance_group of {on.model}, or start Triton with "
        f"{enough or '--rate-limit-resource'}; more instances would wait for the same resource",
        change=remove if needs else None,
    )
