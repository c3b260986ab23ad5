"""From evidence and a request for a change to a forecast, or to a sweep of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from diagnostics.anatomy.anatomy import anatomies
from diagnostics.diagnosis.change_options import (
    SweepGiven,
    changes_given,
    length_factor,
    models_on,
    rate_factor,
    sweep_given,
)
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposal import LoadChange, Proposal, SweepProposal, moves, patches
from diagnostics.diagnosis.undecided import Unread, core_missing
from diagnostics.errors import CollectError, UsageError
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.forecast.entry_model import EntryModel, LoopModel, entry_model
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import ForecastSweep, SweepPoint, knee_of_load, knee_of_setting, unlike
from diagnostics.forecast.traffic import entry_subject
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.spelling import among
from diagnostics.tuning.changes import ConfigChange
from diagnostics.units import parse_whole

# A rate that is given in requests per second is the one in effect where it differs by less than is shown.
_SAME_RATE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvidence:
    """What was read, when and from whom."""

    evidence: WindowEvidence
    window: WindowFacts


Watched = Callable[[Sequence[WhatIf]], AbstractContextManager[Iterable[WhatIf]]]
"""Shows how far a sweep is: yields its cases, one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """What shall change, as on the command line.

    Attributes:
        settings: texts of `--set`.
        changes: changes that were found instead of written.
        rate: text of `--rate`; None for as much as arrives now.
        clients: how many clients of a closed loop; None for as many as now.
        entry: whose requests are forecast; None for the busiest.
        seed: of the simulation.
        prompt_tokens, output_tokens: how long prompts and answers of an engine are; None for as long as now.

    """

    settings: tuple[str, ...] = ()
    changes: tuple[ConfigChange, ...] = ()
    rate: str | None = None
    clients: int | None = None
    entry: str | None = None
    seed: int = 0
    prompt_tokens: str | None = None
    output_tokens: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForecastContext:
    """What a request is about: the entry, its fitted model, and what shall be changed in any case."""

    seen: SourceEvidence
    on: Subject
    model: EntryModel
    changes: tuple[ConfigChange, ...]
    load: LoadChange
    seed: int

    @property
    def evidence(self) -> Evidence:
        return self.seen.evidence

    def what_if(self, more: Sequence[ConfigChange] = (), load: LoadChange | None = None) -> WhatIf:
        requested = self.load if load is None else load
        return WhatIf(
            changes=merged(self.changes, more),
            rate_factor=requested.rate_factor,
            clients=requested.clients,
            prompt_factor=self.load.prompt_factor,
            answer_factor=self.load.output_factor,
        )


def proposed(seen: SourceEvidence, request: ChangeRequest) -> Proposal:
    """Return the forecast of a change.

    Raises:
        UsageError: the request cannot be read, or names what is not there.
        Unpredictable: the evidence does not suffice; it says what to measure.

    """
    ground = _ground(seen, request)
    found = ground.model.forecast(ground.what_if(), request.seed)
    return Proposal(
        on=ground.on,
        window=seen.window,
        moves=moves(ground.model.value_now, ground.changes),
        load=ground.load,
        forecast=replace(found, assumptions=tuple(dict.fromkeys(found.assumptions))),
        patches=patches(seen.evidence, ground.on.server, ground.changes),
        doubt=ground.model.doubt(ground.changes),
    )


def swept(seen: SourceEvidence, request: ChangeRequest, text: str, progress: Watched = nullcontext) -> SweepProposal:
    """Return the forecasts of a sweep; the rest is as in `proposed`.

    Args:
        seen: what was read.
        request: what changes at every value.
        text: what is varied, as in `safety.instance_group.count=1..8`.
        progress: shows how far it is.

    """
    given = sweep_given(text, models_on(seen.evidence, entry_of(seen.evidence, request.entry).server))
    ground = _ground(seen, request)
    cases = [_case(ground, given, at) for at in range(len(given.values))]
    with progress(cases) as each:
        found = [ground.model.performance(one, request.seed) for one in each]
    sweep = _sweep(given, found, _now(ground, given))
    at = sweep.knee
    wanted = merged(ground.changes, given.changes[at : at + 1] if at is not None and at != sweep.now else ())
    baseline, measured = ground.model.performance(None, request.seed), ground.model.measured
    stated = (*ground.model.assumptions(cases[-1 if at is None else at]), *unlike(measured[0], baseline))
    return SweepProposal(
        on=ground.on,
        window=seen.window,
        moves=moves(ground.model.value_now, ground.changes),
        load=ground.load,
        baseline=baseline,
        measured_mean=measured[0],
        measured_p95=measured[1],
        sweep=sweep,
        assumptions=tuple(dict.fromkeys(stated)),
        patches=patches(seen.evidence, ground.on.server, wanted),
    )


def _ground(seen: SourceEvidence, request: ChangeRequest) -> _ForecastContext:
    on = entry_of(seen.evidence, request.entry)
    changes = merged(changes_given(request.settings, models_on(seen.evidence, on.server)), request.changes)
    model = entry_model(seen.evidence, on)
    load = load_of(model, request)
    return _ForecastContext(seen=seen, on=on, model=model, changes=changes, load=load, seed=request.seed)


def entry_of(evidence: Evidence, name: str | None) -> Subject:
    """Return the entry of that name, of the server where it is called most; without a name the one called most.

    Raises:
        UsageError: there is none of that name; those that there are are named.
        CollectError: nothing was called.

    """
    entries = {entry_subject(item): item.requests for item in anatomies(evidence)}
    named = {on: requests for on, requests in entries.items() if name in (None, _name(on))}
    if name is not None and not named:
        known = list(dict.fromkeys(_name(on) for on in entries))
        raise UsageError(f"nothing named {name!r} is called", where="--entry", hint=among(name, known, "entries"))
    busiest = max(named, key=lambda on: named[on], default=None)
    if busiest is None or not named[busiest]:
        lacking = core_missing(evidence) or Unread("no request was completed")
        hint = lacking.next_measurement or "look at it under load"
        raise CollectError(f"{lacking.text}, so nothing can be predicted", hint=hint)
    return busiest


def _name(on: Subject) -> str:
    return on.ensemble or on.model or ""


def merged(changes: Sequence[ConfigChange], more: Sequence[ConfigChange]) -> tuple[ConfigChange, ...]:
    """Return the changes of both, one per model.

    Raises:
        UsageError: both set the same setting.

    """
    found = {one.model: one for one in changes}
    for one in more:
        held = found[one.model].settings if one.model in found else ()
        found[one.model] = ConfigChange(model=one.model, settings=(*held, *one.settings))
    return tuple(found.values())


def load_of(model: EntryModel, request: ChangeRequest) -> LoadChange:
    """Return the load that is wished for.

    Raises:
        UsageError: of Triton's models, a rate is given of a closed loop, clients of an open one, or lengths; or what is
            given cannot be read.

    """
    closed, loop = model.clients is not None, isinstance(model, LoopModel)
    if request.clients is not None and not closed and not loop:
        raise UsageError("requests arrive whatever the server does", where="--clients", hint="give --rate")
    if request.rate is not None and closed and not loop:
        raise UsageError(
            "clients wait for their answers, so none arrive unasked", where="--rate", hint="give --clients"
        )
    factor = rate_factor(request.rate, model.rate) if request.rate is not None else 1.0
    prompt, output = _lengths(model, request)
    return LoadChange(rate_factor=factor, clients=request.clients, prompt_factor=prompt, output_factor=output)


def _lengths(model: EntryModel, request: ChangeRequest) -> tuple[float, float]:
    """Return how many times as long prompts and answers are."""
    given = {"--prompt-tokens": request.prompt_tokens, "--output-tokens": request.output_tokens}
    option = next((option for option, text in given.items() if text), None)
    now = model.lengths if option else None
    if option is None:
        return 1.0, 1.0
    if now is None:
        hint = "forecast an entry point with one LLM engine, or name the page of an LLM server"
        raise UsageError("no engine behind this entry point has tokens of its own", where=option, hint=hint)
    prompt, output = (
        length_factor(text, mean, option) if text else 1.0
        for (option, text), mean in zip(given.items(), now, strict=True)
    )
    return prompt, output


def _case(ground: _ForecastContext, given: SweepGiven, at: int) -> WhatIf:
    """Return what one value of a sweep changes, besides what is changed at all of them."""
    if given.kind == "setting":
        return ground.what_if(given.changes[at : at + 1])
    if not ground.load.same:
        raise UsageError("is what the sweep varies", where="--rate, --clients", hint="give one of them")
    value = given.values[at]
    if given.kind == "rate":
        rate_factor(value, ground.model.rate, "--sweep")
    request = ChangeRequest(rate=value) if given.kind == "rate" else ChangeRequest(clients=_whole(value))
    return ground.what_if(load=load_of(ground.model, request))


def _whole(text: str) -> int:
    number = parse_whole(text)
    if not number:
        raise UsageError(f"{text!r} is no number of clients", where="--sweep", hint="write it like clients=1..64:8")
    return number


def _now(ground: _ForecastContext, given: SweepGiven) -> int | None:
    """Return the position of the value in effect; None where it is not among them, or not known."""
    if given.kind == "setting":
        change = given.changes[0]
        held, known = ground.model.value_now(change.model, change.settings[0].path)
        same = [known and one.settings[0].value == held for one in given.changes]
    elif given.kind == "rate":
        rate = ground.model.rate
        same = [abs(rate_factor(value, rate) - 1.0) < _SAME_RATE for value in given.values]
    else:
        same = [_whole(value) == ground.model.clients for value in given.values]
    return same.index(True) if True in same else None


def _sweep(given: SweepGiven, found: Sequence[Performance], now: int | None) -> ForecastSweep:
    points = tuple(SweepPoint(value=v, performance=p) for v, p in zip(given.values, found, strict=True))
    setting = given.kind == "setting"
    ordered = all(parse_whole(value) is not None for value in given.values)
    return ForecastSweep(
        name=given.name,
        model=given.changes[0].model if setting else None,
        points=points,
        now=now,
        knee=knee_of_load(found) if not setting else knee_of_setting(found) if ordered else None,
    )
