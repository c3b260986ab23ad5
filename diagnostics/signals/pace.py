"""How long an engine's iterations, its tokens, or a model's executions, take stretch by stretch.

Iterations and tokens are series with many more events than requests. Each running request gets a token an iteration, so
that the time per token is that of an iteration where the engine reports none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from diagnostics.signals.contrast import SAME_LOAD, SeriesInterval, When, pieces_per_request
from diagnostics.signals.engine import ENGINE_WORK_SECONDS
from diagnostics.signals.engine_iterations import ENGINE_AT_WORK, ENGINE_SECONDS, own_value, pages_inside, prefills
from diagnostics.signals.engine_samples import EngineReads, engine_of, is_engine, shows_its_time
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.onset import CHANGE_FACTOR, MOST_STEPS, rise
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView
from diagnostics.wire.servers.catalogue import token_names
from diagnostics.wire.servers.kind import GENERATED, NEXT_TOKEN, PROMPTED, TOKEN_OF_REQUEST

# A tenth more of the iterations with a prompt in them, each up to ten times as long, doubles their mean.
MORE_PROMPTS = 0.1
# Pauses in a tenth of the time lengthen what passes between two iterations by a ninth.
NEARLY_ALWAYS = 0.9


def iteration_pieces(view: ModelView) -> list[SeriesInterval]:
    """Return the time of a model's engine per iteration, between reads that both found it at work.

    Where the engine times its iterations, each that was read is a piece; else the time between two reads is that of the
    iterations between them, pauses included; else it is the time per token. Empty where the model has no engine that
    reports iterations or tokens.
    """
    engine = engine_of(view)
    if isinstance(engine, Missing):
        return []
    timed = [SeriesInterval(one.at, one.at, one.iteration_seconds, 1.0) for one in engine.live if one.iteration_seconds]
    counted = [
        SeriesInterval(before.at, after.at, after.at - before.at, after.iterations - before.iterations)
        for before, after in pairwise(engine.samples)
        if before.iterations is not None and after.iterations is not None and after.iterations > before.iterations
        if before.scheduled and after.scheduled
    ]
    if timed or counted:
        return timed or (counted if _hardly_pauses(view, counted) else [])
    return _token_pieces(view, engine)


def _token_pieces(view: ModelView, engine: EngineReads) -> list[SeriesInterval]:
    """Return the time per token between pages: as a histogram has it, else running requests × time ÷ tokens."""
    for family in (*token_names(NEXT_TOKEN), *token_names(TOKEN_OF_REQUEST)):
        if found := _steps_of(view, f"{family}_sum", f"{family}_count"):
            return [SeriesInterval(start, end, seconds, tokens) for start, end, seconds, tokens in found if tokens > 0]
    running = {sample.at: sample.scheduled for sample in engine.samples if sample.scheduled}
    for family in token_names(GENERATED):
        if found := _steps_of(view, family, family):
            return [
                SeriesInterval(start, end, (running[start] + running[end]) / 2 * (end - start), tokens)
                for start, end, tokens, _ in found
                if tokens > 0 and start in running and end in running
            ]
    return []


def _steps_of(view: ModelView, one: str, other: str) -> list[tuple[float, float, float, float]]:
    """Return (start, end, increase of one series, of another) from page to page; without pages between which it fell.

    Empty where the model exports neither.
    """
    found = []
    for before, after in pairwise(pages_inside(view)):
        values = [own_value(view, position, name) for position in (before, after) for name in (one, other)]
        if None in values:
            continue
        first, second, third, fourth = (value or 0.0 for value in values)
        if third >= first and fourth >= second:
            at = view.server.snapshots
            found.append((at[before][0], at[after][0], third - first, fourth - second))
    return found


def _hardly_pauses(view: ModelView, pieces: Sequence[SeriesInterval]) -> bool:
    """Return whether an engine that both ends of a piece find at work is at work in between.

    It is where it nearly always is, and where a request keeps it at work for longer than two reads are apart.
    """
    if (ENGINE_AT_WORK.read(view).value or 0.0) >= NEARLY_ALWAYS:
        return True
    apart = median(piece.end - piece.start for piece in pieces) if pieces else 0.0
    return (ENGINE_WORK_SECONDS.read(view).value or 0.0) >= 2 * apart > 0


def more_requests(view: ModelView, when: When) -> bool:
    """Return whether clearly more requests end while a driver is up: then longer iterations may be their own doing.

    Clearly is by more than counts of requests differ by chance (twice the error of their difference).
    """
    for source in (STATISTICS, METRICS):
        counts = {True: [0.0, 0.0], False: [0.0, 0.0]}
        for step in view.steps(source):
            up = when(step.start, step.end)
            if up is not None:
                counts[up][0] += step.values.get(Counter.SUCCESS, 0.0)
                counts[up][1] += step.seconds
        (more, during), (fewer, without) = counts[True], counts[False]
        if during > 0 and without > 0:
            expected = SAME_LOAD * fewer / without * during
            return more - expected > 2.0 * math.sqrt(more + expected)
    return False


def engine_time(engine: ModelView, entry: ModelView) -> Reading:
    """Return the seconds that a request spends in an engine: as it says, its row's, or what no stage accounts for."""
    if (reported := ENGINE_SECONDS.read(engine)).value is not None:
        return reported
    if shows_its_time(engine):
        return COMPUTE_SECONDS.read(engine)
    if engine.model != entry.model:
        return _hidden(engine, entry)
    callers = engine.server.graph.callers(engine.model or "")
    return _hidden(engine, engine.beside(callers[0].name)) if len(callers) == 1 else REQUEST_SECONDS.read(engine)


def _hidden(engine: ModelView, entry: ModelView) -> Reading:
    """Return a request's time less that of the other stages: what passes between them is the engine's."""
    graph = entry.server.graph.ensembles.get(entry.model or "")
    whole, requests = REQUEST_SECONDS.read(entry), REQUESTS.read(entry)
    for model in graph.models() if graph else ():
        if model != engine.model:
            stage = engine.beside(model)
            whole = whole - REQUEST_SECONDS.read(stage) * (REQUESTS.read(stage) / requests)
    if whole.value is None:
        return whole
    return Reading.of(max(whole.value, 0.0), Unit.SECONDS, whole.source, estimated=True)


@dataclass(frozen=True, slots=True)
class _Spell:
    """A stretch of the window (Unix seconds) in which work took so many times as long as in the rest."""

    start: float
    end: float
    times: float


def _spell(pieces: Sequence[SeriesInterval]) -> _Spell | None:
    """Return the stretch in which work takes longest, if it stands out; None where none certainly does."""
    every = -(-len(pieces) // MOST_STEPS) or 1
    bins = [pieces[i : i + every] for i in range(0, len(pieces), every)]
    values = [sum(one.amount for one in bin_) / sum(one.events for one in bin_) for bin_ in bins]
    if min((sum(one.events for one in bin_) for bin_ in bins), default=0.0) < 1:
        return None
    if min(values, default=0.0) <= 0:
        return None
    found = rise(values, ended=CHANGE_FACTOR)
    if found is not None:
        return _Spell(bins[found.first][0].start, bins[found.last - 1][-1].end, found.inside / found.outside)
    # A spell that the window begins with has no onset in it: its end is one, seen backwards.
    back = rise(values[::-1], ended=CHANGE_FACTOR)
    if back is None or back.last != len(values):
        return None
    return _Spell(bins[0][0].start, bins[len(values) - 1 - back.first][-1].end, back.inside / back.outside)


def _slowed(view: ModelView) -> Reading:
    """Return how many times as long iterations or executions take in a spell that their own load does not explain."""
    iterations = iteration_pieces(view)
    spell = _spell(iterations or _executions(view))
    if spell is None:
        return Reading.of(1.0, Unit.RATIO, METRICS)

    def when(start: float, end: float) -> bool | None:
        if start >= spell.start and end <= spell.end:
            return True
        return False if end <= spell.start or start >= spell.end else None

    if more_requests(view, when) or _more_prompts(view, when) or _larger_batches(view, when):
        return Reading.of(1.0, Unit.RATIO, METRICS)
    return Reading.of(spell.times, Unit.RATIO, METRICS, span=spell.end - spell.start)


def _executions(view: ModelView) -> list[SeriesInterval]:
    """Return how long requests of a model execute, read by read; empty of an engine, whose row counts iterations."""
    if is_engine(view):
        return []
    found = (pieces_per_request(view.steps(source), Counter.INFER_SECONDS) for source in (STATISTICS, METRICS))
    return [piece for piece in next(filter(None, found), []) if piece.events > 0]


def _larger_batches(view: ModelView, when: When) -> bool:
    """Return whether executions hold more requests while they are long: then they are long for that."""
    sides = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for step in view.steps(STATISTICS):
        up = when(step.start, step.end)
        if up is not None:
            sides[up][0] += step.values.get(Counter.SUCCESS, 0.0)
            sides[up][1] += step.values.get(Counter.EXECUTIONS, 0.0)
    (more, inside), (fewer, outside) = sides[True], sides[False]
    return inside > 0 and outside > 0 and more / inside > SAME_LOAD * fewer / outside


def _more_prompts(view: ModelView, when: When) -> bool:
    """Return whether the engine reads prompts more often while iterations are long: they are long for that."""
    for family in token_names(PROMPTED):
        rates: dict[bool, list[float]] = {True: [0.0, 0.0], False: [0.0, 0.0]}
        for start, end, tokens, _ in _steps_of(view, family, family):
            if (up := when(start, end)) is not None:
                rates[up] = [rates[up][0] + tokens, rates[up][1] + end - start]
        (more, during), (fewer, without) = rates[True], rates[False]
        if during > 0 and without > 0 and more / during > SAME_LOAD * fewer / without:
            return True
    engine = engine_of(view)
    sides: dict[bool, list[float]] = {True: [], False: []}
    for sample in [] if isinstance(engine, Missing) else engine.live:
        up, reads = when(sample.at, sample.at), prefills(sample)
        if up is not None and reads is not None:
            sides[up].append(1.0 if reads else 0.0)
    return bool(sides[True] and sides[False]) and fmean(sides[True]) > fmean(sides[False]) + MORE_PROMPTS


SLOWED = Signal(
    name="slowed",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="How many times as long an engine's iterations, or a model's executions, take in the stretch of the window in "
    "which they are longest, with no more requests, prompts or items in a batch; 1 where no stretch stands out.",
    readers=(_slowed,),
)
