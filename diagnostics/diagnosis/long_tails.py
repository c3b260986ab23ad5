"""Requests that take far longer than most, where the means of their stages look like load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.gates import holds_back_answers
from diagnostics.diagnosis.finding import entry_name
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import least_worthwhile
from diagnostics.signals.cache import CACHE_LOOKUPS
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.dispersion import EXECUTION_DISPERSION, UNDISTURBED_EXECUTION_SHARE
from diagnostics.signals.pauses import AFTER_PAUSE_EXCESS, AFTER_PAUSE_SECONDS, AWAKE_SECONDS, SLOW_AFTER_PAUSE
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.tails import (
    SLOW_EXECUTION_SECONDS,
    SLOW_REQUEST_SECONDS,
    TAIL,
    TYPICAL_EXECUTION_SECONDS,
    TYPICAL_REQUEST_SECONDS,
)
from diagnostics.signals.triton import COMPUTE_SECONDS
from diagnostics.units import Unit

# Squared coefficient of variation of exponential times: what certainly varies by more stalls at times.
AS_EXPONENTIAL = 1.0
# Stages that are long by less than half of what requests are long by do not make them so.
_MOST_OF_IT = 0.5
_MOST_NAMED = 3
# Stops of one length add as much to each model's longest executions; two models may agree by chance.
_ALIKE = 1.25
_FEWEST_ALIKE = 3


class LongTail(NamedTuple):
    """What is wrong, and the measurement that shows why.

    Attributes:
        entry: the model or ensemble that clients call.
        seconds: what its requests lose in all, in the window.
        text: what is wrong.
        inside: models that are long as well, which it may call.
        next_measurement: what shows why.

    """

    entry: str
    seconds: float
    text: str
    inside: Sequence[str]
    next_measurement: str


def longest_tail(evidence: Evidence, anatomy: Sequence[Anatomy]) -> LongTail | None:
    """Return the entry whose requests lose most to some that take far longer than most, with the names of the others.

    Not where requests differ by themselves: those that an engine generates for, that a cache answers, or whose batches
    differ in size. None where no request takes far longer than most.
    """
    even = [item for item in anatomy if not any(_differs_by_itself(evidence, on) for on in _stages(item))]
    found = [one for item in even if (one := _of_requests(evidence, item) or _of_stages(evidence, item)) is not None]
    if not found:
        return None
    first, *others = sorted(found, key=lambda one: -one.seconds)
    also = [one.entry for one in others if one.entry not in first.inside]
    return first._replace(text=f"{first.text}; so do some to {_listed(also)}" if also else first.text)


def after_pauses(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[LongTail]:
    """Yield the stages whose requests are slow after each pause: no warm-up helps, and more instances pause longer."""
    for item in anatomy:
        for on in _stages(item):
            pause, each = evidence.read(SLOW_AFTER_PAUSE, on).value, evidence.read(AFTER_PAUSE_EXCESS, on).value
            if not pause or each is None or each < least_worthwhile(item.mean_seconds):
                continue
            slow, usual = (
                Unit.SECONDS.show(evidence.read(one, on).value) for one in (AFTER_PAUSE_SECONDS, AWAKE_SECONDS)
            )
            name, length = on.model, Unit.SECONDS.show(pause)
            card = "" if evidence.read(ON_GPU, on).value == 0 else "; record the GPU's clocks with NVML"
            yield LongTail(
                entry_name(item.ensemble, item.stages[0].model),
                item.requests * each,
                f"requests to {name} take {slow} after pauses of {length} and longer, else {usual}",
                (),
                f"send {name} a request every {Unit.SECONDS.show(pause / 2)}; if the others are fast then, see what "
                f"ends when it is idle (keep-alive, the least size of a pool, caches that expire){card}",
            )


def _stages(item: Anatomy) -> list[Subject]:
    return [Subject(server=item.server, model=stage.model) for stage in item.stages]


def _differs_by_itself(evidence: Evidence, on: Subject) -> bool:
    config, service = evidence.config(on), evidence.service_time(on)
    sizes = service.sizes_seen if service else ()
    apart = service.time(max(sizes)) / service.time(min(sizes)) if service and sizes else 1.0
    return (
        evidence.is_engine(on)
        or (config is not None and config.decoupled)
        or (evidence.read(CACHE_LOOKUPS, on).value or 0.0) > 0
        or apart >= TAIL
    )


def _of_requests(evidence: Evidence, item: Anatomy) -> LongTail | None:
    """Return what single requests show; the mean of the window has to hold it, as a summary may be older."""
    name = entry_name(item.ensemble, item.stages[0].model)
    on = Subject(server=item.server, model=name)
    typical, slow = evidence.read(TYPICAL_REQUEST_SECONDS, on).value, evidence.read(SLOW_REQUEST_SECONDS, on).value
    if (
        typical is None
        or slow is None
        or slow < TAIL * typical
        or item.mean_seconds - typical < least_worthwhile(item.mean_seconds)
    ):
        return None
    own = [one for one in _stages(item) if _is_long(evidence, one, slow - typical)]
    others = [
        one.model or ""
        for one in evidence.subjects(Scope.MODEL)
        if one.server == item.server and one.model != name and _is_long(evidence, one, slow - typical)
    ]
    where = f"; at times executions of {_listed([one.model or '' for one in own])} take as long" if own else ""
    text = (
        f"one request in twenty to {name} takes {Unit.SECONDS.show(slow)} or more, half of them take "
        f"{Unit.SECONDS.show(typical)} or less{where}"
    )
    inside = sorted({*others} - {one.model or "" for one in own}) if item.ensemble is None else []
    lost = item.requests * (item.mean_seconds - typical)
    return LongTail(name, lost, text, inside, _next(evidence, own or [on], inside))


def _of_stages(evidence: Evidence, item: Anatomy) -> LongTail | None:
    """Return what executions take beyond the usual ones, where some are far longer than most.

    A request that passes several such stages hardly ever meets none: then its own times are long and alike.
    """
    usual = [(on, stage, _usual_part(evidence, on)) for on, stage in zip(_stages(item), item.stages, strict=True)]
    known = [(on, stage.cells.get(Phase.COMPUTE, 0.0), part) for on, stage, part in usual if part is not None]
    lost = sum(seconds * (1.0 - part) for _, seconds, part in known)
    if lost < least_worthwhile(item.mean_seconds):
        return None
    whole, name = sum(seconds for _, seconds, _ in known), entry_name(item.ensemble, item.stages[0].model)
    text = (
        f"some executions of {_listed([on.model or '' for on, _, _ in known])} take far longer than most: "
        f"{Unit.SECONDS.show(whole)} of each request to {name}, {Unit.SECONDS.show(whole - lost)} if each took as long "
        "as most"
    )
    return LongTail(name, item.requests * lost, text, (), _next(evidence, [on for on, _, _ in known], ()))


def _usual_part(evidence: Evidence, on: Subject) -> float | None:
    """Return what most executions take ÷ the mean; None where none is far longer than most, or that is not seen.

    Single times show it, else how much reads differ: by more than those of exponential times do.
    """
    typical, slow = (evidence.read(one, on).value for one in (TYPICAL_EXECUTION_SECONDS, SLOW_EXECUTION_SECONDS))
    mean = evidence.read(COMPUTE_SECONDS, on).value
    if typical is not None and slow is not None and mean:
        return min(typical / mean, 1.0) if slow >= TAIL * typical else None
    varies, usual = evidence.read(EXECUTION_DISPERSION, on).low, evidence.read(UNDISTURBED_EXECUTION_SHARE, on).value
    return usual if varies is not None and varies >= AS_EXPONENTIAL else None


def _is_long(evidence: Evidence, on: Subject, beyond: float) -> bool:
    """Return whether one execution in a hundred is longer than most by what makes requests long."""
    typical, slow = evidence.read(TYPICAL_EXECUTION_SECONDS, on).value, evidence.read(SLOW_EXECUTION_SECONDS, on).value
    return typical is not None and slow is not None and slow - typical >= _MOST_OF_IT * beyond


def _next(evidence: Evidence, stages: Sequence[Subject], inside: Sequence[str]) -> str:
    """Return what to measure: all requests of those stages, and of what they may call."""
    several = any((evidence.read(INSTANCES, on).value or 0.0) > 1 for on in stages)
    compared = "its instance, its inputs, and what ran beside it" if several else "its inputs, and what ran beside it"
    text = f"trace all requests (rate=1), and compare a long execution with a short one: {compared}"
    if (alike := _alike(evidence, stages[0].server)) is not None:
        number, seconds = alike
        text += (
            f"; {number} models have executions that are longer by the same {Unit.SECONDS.show(seconds)}: see whether "
            "the whole server stops then (nr_throttled in its cgroup's cpu.stat, SIGSTOP, pauses of the machine)"
        )
    if held := [on.model or "" for on in stages if holds_back_answers(evidence, on)]:
        text += (
            f"; answers of {_listed(held)} wait for those of earlier requests (preserve_ordering): set it to false if "
            "no client needs the order"
        )
    if inside:
        text += f"; executions of {_listed(inside)} take as long at times, too: it waits for them if it calls them"
    return text


def _alike(evidence: Evidence, server: str) -> tuple[int, float] | None:
    """Return how many models have executions that are longer than most by one time, and by how many seconds.

    A server that stops and goes on adds the same to whatever it executes, however long that takes otherwise.
    """
    ensembles = evidence.graph(server).ensembles
    models = [one for one in evidence.subjects(Scope.MODEL) if one.server == server and one.model not in ensembles]
    times = [
        [evidence.read(one, on).value for one in (TYPICAL_EXECUTION_SECONDS, SLOW_EXECUTION_SECONDS)] for on in models
    ]
    added = [slow - typical for typical, slow in times if typical and slow and slow >= TAIL * typical]
    alike = len(added) >= _FEWEST_ALIKE and max(added) <= _ALIKE * min(added)
    return (len(added), max(added)) if alike else None


def _listed(models: Sequence[str]) -> str:
    shown = ", ".join(models[:_MOST_NAMED])
    return f"{shown} and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else shown
