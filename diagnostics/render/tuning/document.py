"""What is said of tunings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.proposal import CarriedProposal, Move, TunedProposal
from diagnostics.forecast.capacity import InfeasibilityReport
from diagnostics.forecast.options import Minimize
from diagnostics.forecast.packing import MOST_SHARE, Packing
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.search import Candidate
from diagnostics.forecast.target import LatencyTarget, refuses
from diagnostics.render.document import Document, Headline, Points, Sentence, Table, TableColumn
from diagnostics.render.forecast import document as words
from diagnostics.render.phrases import cause_named
from diagnostics.units import Unit

_show = Unit.SECONDS.show
_share = Unit.RATIO.show
_CARRIED_SHOWN = 12
# Beyond this part of a device's time, a tenth more load doubles what executions wait for it (1 / (1 − ρ)).
_FULL = 0.9


def headline(found: TunedProposal) -> str:
    """Return the answer in one sentence."""
    name, target, best = words.entry_name(found.on), found.tuning.target, found.tuning.best
    load = "".join(f" at {one}" for one in words.load(found.load))
    if best is None:
        return f"{name}: no setting found meets {target.text}{load}{_nearest(found)}"
    now, then = (_value(target, one) for one in (found.tuning.baseline, best.performance))
    meets = f"{'meets' if found.certain else 'should meet'} {target.text}{load}"
    if not best.changes:
        return f"{name} {meets} as it is: modelled {then}"
    return f"{name}: {_changes(found.moves)} {meets}: modelled {now} → {then}"


def _nearest(found: TunedProposal) -> str:
    nearest = found.tuning.nearest
    if nearest is None:
        return ""
    value, refused = found.tuning.target.forecast(nearest.performance), ""
    if refuses(nearest.performance):
        refused = f", with {_share(nearest.performance.refused_share)} of requests refused"
    how = f"with {_changes(found.moves)}" if found.moves else "as it is"
    if value is None:
        return f"; it {words.NO_KEEPING_UP} {how}"
    return f"; nearest is modelled {_show(value.value)}, {how}{refused}"


def _value(target: LatencyTarget, one: Performance) -> str:
    value = target.forecast(one)
    return words.NO_KEEPING_UP if value is None else _show(value.value)


def _changes(moves: Sequence[Move]) -> str:
    return ", ".join(words.move(one) for one in moves) or "as it is"


def certainty(found: TunedProposal) -> str:
    """Return how sure the answer is; empty where there is none, or nothing of its interval is above the objective."""
    best, target = found.tuning.best, found.tuning.target
    value = target.forecast(best.performance) if best else None
    if value is None or found.certain:
        return ""
    then = "; apply it, then compare with this window: diag verify" if found.moves else ""
    if found.doubt:
        return f"possible, not certain: {found.doubt}{then}"
    reach = "has no upper end" if value.high is None else f"reaches {_show(value.high)}"
    if found.plausible:
        return f"more likely than not, but not certain: the 90 % interval {reach}{then}"
    return f"possible, not certain: the model does not reproduce the measurement{then}"


def cause(found: TunedProposal) -> str:
    """Return what `diag explain` names first; empty where that is nothing, or its remedy is what is shown."""
    named = found.cause
    if named is None or named.suggestion is None or not found.beside_cause:
        return ""
    about = cause_named(named)
    return f"diag explain names {about} first; {named.suggestion.remedy.value}: {named.suggestion.text}"


def reasons(found: TunedProposal) -> Iterator[str]:
    """Yield why nothing meets the objective, and what would; nothing where something does."""
    short, target = found.shortfall, found.tuning.target
    if short is None:
        return
    if (excess := short.excess(target)) is not None:
        yield from _too_slow(short, excess)
        return
    if short.alone is None:
        yield "even at a sixteenth of this load no request would be answered that could be timed"
    else:
        yield (
            f"a request alone on the server takes {_show(short.alone)}, which leaves "
            f"{_show(target.seconds - short.alone)} for waits"
        )
    yield from _devices(short)
    if short.engine is not None:
        yield (
            f"requests wait inside {short.engine}: its engine's own limits (slots, cache, token budget) are not "
            "searched; try them with diag whatif --set"
        )
    if found.plausible:
        yield from _replicas(short)
    else:
        yield "how much it would carry is unknown: the model does not reproduce the measurement"


def _devices(short: InfeasibilityReport) -> Iterator[str]:
    for name, share in short.demanded.items():
        requested = f"executions ask for {_share(share)} of {'them' if name.endswith('s') else 'it'}"
        if share >= _FULL:
            yield f"the {name} {'are' if name.endswith('s') else 'is'} full: {requested}"
        elif share >= MOST_SHARE:
            yield f"on the {name}, {requested}, and slow each other"


def _too_slow(short: InfeasibilityReport, excess: float) -> Iterator[str]:
    slowest = f"{short.slowest}, which executes longest ({_show(short.slowest_seconds)})"
    yield (
        f"a request alone on the server takes {_show(short.alone)}: {_show(excess)} too long at any load and setting"
    )
    if short.beside >= min(excess, short.slowest_seconds):
        yield (
            f"{_show(short.beside)} of it pass outside of executions, as the window showed; correct that first: diag "
            f"explain shows the cause"
        )
    elif excess < short.slowest_seconds:
        yield f"what would help: {slowest}, made faster by {_show(excess)} (a faster model, engine or GPU)"
    else:
        yield f"not even without {slowest}: several stages must get faster"


def _replicas(short: InfeasibilityReport) -> Iterator[str]:
    if short.carried is None:
        if short.alone is not None:
            yield "no load near the measured one meets the objective"
    elif short.replicas and short.replicas > 1:
        yield (
            f"what would help: {short.replicas} servers like this one, each with devices of its own: so set, one "
            f"carries "
            f"{short.carried:.2g} times this load within the objective"
        )


def candidates(found: TunedProposal) -> list[tuple[str, str, str, str, str]]:
    """Return a row per runner-up: settings, mean, the objective's statistic, instances, GPU share."""
    pairs = zip(found.others, found.tuning.runners_up, strict=True)
    return [(_changes(moves), *_numbers(found.tuning.target, one)) for moves, one in pairs]


def _numbers(target: LatencyTarget, one: Candidate) -> tuple[str, str, str, str]:
    mean = one.performance.mean
    share = "—" if one.gpu_share is None else _share(one.gpu_share)
    return _show(mean.value) if mean else "—", _value(target, one.performance), str(one.instances), share


def searched(found: TunedProposal) -> str:
    """Return what was looked at."""
    one = found.tuning
    smallest = "the fewest instances" if one.minimize is Minimize.INSTANCES else "the least of the GPU"
    large = f"; {one.too_large} passed over, which the GPU's memory does not hold" if one.too_large else ""
    return (
        f"searched for {smallest} in {found.seconds:.1f} s: {one.screened} settings and combinations by formulas, "
        f"{one.simulated} of them simulated{large}"
    )


def _packing_title(one: Packing) -> str:
    """Return how few GPUs would do. It is a proposal: the configuration in effect may place models otherwise."""
    count = len(one.cards)
    return f"with these settings, the models would fit on {count} {'GPU' if count == 1 else 'GPUs'}"


def packing(one: Packing) -> Iterator[str]:
    """Yield which models would share a GPU."""
    for card in one.cards:
        held = "" if card.held is None else f", {Unit.BYTES.show(card.held)}"
        yield f"one for {', '.join(card.models)} ({_share(card.share)} of its time{held})"
    if one.overfull:
        yield (
            f"{', '.join(one.overfull)}: over {_share(MOST_SHARE)} of a GPU's time, beyond which executions may take "
            "more than twice as long as alone"
        )
    if one.unread:
        yield f"memory of {', '.join(one.unread)} was not read, so it is left out of this"


def carried_headline(found: CarriedProposal) -> str:
    """Return the setting that carries most."""
    name, target = words.entry_name(found.on), found.target
    if not found.found:
        return f"{name}: none of these settings meets {target.text} at any load in reach"
    best = found.found[0]
    how = f"with {_changes(found.moves[0])}" if found.moves[0] else "as it is"
    factor = "" if found.closed else f", {best.factor:.3g} times what arrives"
    return f"{name} answers most within {target.text} {how}: {Unit.PER_SECOND.show(best.per_second)}{factor}"


def carried_rows(found: CarriedProposal) -> list[tuple[str, str, str, str, str]]:
    """Return a row per setting: settings, answered per second, load, the statistic there, instances."""
    pairs = list(zip(found.moves, found.found, strict=True))[:_CARRIED_SHOWN]
    return [
        (
            _changes(moves) if moves else "as it is",
            Unit.PER_SECOND.show(one.per_second),
            "—" if found.closed else f"{one.factor:.3g}x",
            _value(found.target, one.performance),
            str(one.instances),
        )
        for moves, one in pairs
    ]


def tuned_document(found: TunedProposal) -> Document:
    """Return the smallest change that meets the objective."""
    colour = "red" if found.tuning.best is None else "green" if found.certain else "yellow"
    now, target, shown = found.tuning.baseline, found.tuning.target, found.shown
    warned = words.warning(found.account or now, found.measured_mean)
    return [
        Headline(text=headline(found), colour=colour),
        Sentence(text=certainty(found) or (found.doubt if found.moves else ""), under=2),
        Sentence(text=warned, under=2),
        Points(items=list(reasons(found))),
        Sentence(text=cause(found), under=2),
        *(words.before_and_after(now, shown.performance, rough=found.misses) if shown else ()),
        _settings(("would do as well", "mean", target.statistic, "instances", "GPU"), candidates(found)),
        Sentence(text=searched(found)),
        Sentence(text=_against_measurement(found, now), under=0),
        *([Points(title=_packing_title(found.packing), items=list(packing(found.packing)))] if found.packing else ()),
        *words.ending(words.further(found.assumptions, f"{warned} {found.doubt}"), found.patches, found.window),
    ]


def _settings(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    first, *numbers, last = heads
    columns = [TableColumn(head=first, width=37, wraps=True), *(TableColumn(head=head, width=11) for head in numbers)]
    return Table(columns=[*columns, TableColumn(head=last)], rows=rows)


def _against_measurement(found: TunedProposal | CarriedProposal, now: Performance) -> str:
    if not found.load.same:
        return ""
    return words.against_measurement(now, found.measured_mean, found.measured_p95, found.window)


def carried_document(found: CarriedProposal) -> Document:
    """Return settings by the load that they carry."""
    return [
        Headline(text=carried_headline(found), colour="green" if found.found else "red"),
        _settings(("setting", "answered", "load", found.target.statistic, "instances"), carried_rows(found)),
        Sentence(text=_against_measurement(found, found.baseline)),
        *words.ending(found.assumptions, found.patches, found.window),
    ]
