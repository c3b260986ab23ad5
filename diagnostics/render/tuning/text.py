"""What text and Markdown say of tunings, in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.proposal import CarriedProposal, Move, TunedProposal
from diagnostics.forecast.capacity import InfeasibilityReport
from diagnostics.forecast.options import Minimize
from diagnostics.forecast.packing import MOST_SHARE, Packing
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.search import Candidate
from diagnostics.forecast.target import LatencyTarget, refuses
from diagnostics.render.forecast import text
from diagnostics.render.forecast.text import listed_markdown, patch_lines, patches_markdown
from diagnostics.render.phrases import subject_name
from diagnostics.render.plain import Style, escaped, fitted, listed, plain, table, window_lines, wrapped
from diagnostics.units import Unit

_show = Unit.SECONDS.show
_share = Unit.RATIO.show
_CARRIED_SHOWN = 12
# Beyond this part of a device's time, a tenth more load doubles what executions wait for it (1 / (1 − ρ)).
_FULL = 0.9


def headline(found: TunedProposal) -> str:
    """Return the answer in one sentence."""
    name, target, best = text.entry_name(found.on), found.tuning.target, found.tuning.best
    load = "".join(f" at {one}" for one in text.load(found.load))
    if best is None:
        return f"{name}: no setting found meets {target.text}{load}{_nearest(found)}"
    now, then = (_value(target, one) for one in (found.tuning.baseline, best.performance))
    if not best.changes:
        return f"{name} meets {target.text}{load} as it is: {then}"
    return f"{name}: {_changes(found.moves)} meets {target.text}{load}: {now} → {then}"


def _nearest(found: TunedProposal) -> str:
    nearest = found.tuning.nearest
    if nearest is None:
        return ""
    value, refused = found.tuning.target.forecast(nearest.performance), ""
    if refuses(nearest.performance):
        refused = f", with {_share(nearest.performance.refused_share)} of requests refused"
    how = f"with {_changes(found.moves)}" if found.moves else "as it is"
    return f"; it {text.NO_KEEPING_UP} {how}" if value is None else f"; nearest is {_show(value.value)}, {how}{refused}"


def _value(target: LatencyTarget, one: Performance) -> str:
    value = target.forecast(one)
    return text.NO_KEEPING_UP if value is None else _show(value.value)


def _changes(moves: Sequence[Move]) -> str:
    return ", ".join(text.move(one) for one in moves) or "as it is"


def certainty(found: TunedProposal) -> str:
    """Return how sure the answer is; empty where there is none, or nothing of its interval is above the objective."""
    best, target = found.tuning.best, found.tuning.target
    value = target.forecast(best.performance) if best else None
    if value is None or found.certain:
        return ""
    reach = "has no upper end" if value.high is None else f"reaches {_show(value.high)}"
    why = f"the 90 % interval {reach}" if found.plausible else "the model does not account for what was measured"
    then = "; apply it and hold it against this window with diag verify" if found.moves else ""
    return f"{'likely' if found.plausible else 'possible'}, not certain: {why}{then}"


def cause(found: TunedProposal) -> str:
    """Return what `diag explain` names first; empty where that is nothing, or its remedy is what is shown."""
    named = found.cause
    if named is None or named.suggestion is None or not found.beside_cause:
        return ""
    about = f"{named.check} of {subject_name(named)}"
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
            f"a request that has the server nearly to itself takes {_show(short.alone)}, which leaves "
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
        yield "how much it would carry is not known: the model does not account for what was measured"


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
        f"a request that has the server nearly to itself takes {_show(short.alone)}: {_show(excess)} too long, "
        "whatever the load and the settings"
    )
    if short.beside >= min(excess, short.slowest_seconds):
        yield (
            f"{_show(short.beside)} of it pass outside of executions, as the window showed; that is to be "
            "mended first: diag explain says what it is"
        )
    elif excess < short.slowest_seconds:
        yield f"what would do: {slowest}, made faster by {_show(excess)} (a faster model, engine or GPU)"
    else:
        yield f"not even without {slowest}: several stages must get faster"


def _replicas(short: InfeasibilityReport) -> Iterator[str]:
    if short.carried is None:
        if short.alone is not None:
            yield "no load in reach of what was measured meets the objective"
    elif short.replicas and short.replicas > 1:
        yield (
            f"what would do: {short.replicas} servers like this one, each with devices of its own: so set, one carries "
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


def packing(one: Packing) -> Iterator[str]:
    """Yield which models share a GPU."""
    for number, card in enumerate(one.cards, 1):
        held = "" if card.held is None else f", {Unit.BYTES.show(card.held)}"
        yield f"GPU {number}: {', '.join(card.models)} ({_share(card.share)} of its time{held})"
    if one.overfull:
        yield (
            f"{', '.join(one.overfull)}: over {_share(MOST_SHARE)} of a GPU's time, beyond which executions may take "
            "more than twice as long as alone"
        )
    if one.unread:
        yield f"memory of {', '.join(one.unread)} was not read, so it is left out of this"


def carried_headline(found: CarriedProposal) -> str:
    """Return the setting that carries most."""
    name, target = text.entry_name(found.on), found.target
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


def tuned_text(found: TunedProposal, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    colour = "red" if found.tuning.best is None else "green" if found.certain else "yellow"
    parts = [
        *(style(line, colour) for line in wrapped(headline(found), hang="  ")),
        *wrapped(certainty(found), "  "),
        *(line for reason in reasons(found) for line in wrapped(reason, "  ", "- ")),
        *wrapped(cause(found), "  "),
        "",
        *_before_and_after(found),
        *_runners_up(found),
        *wrapped(searched(found)),
        *wrapped(text.against_measurement(found.tuning.baseline, found.measured_mean) if found.load.same else ""),
        *listed("the models by GPU:", list(packing(found.packing)) if found.packing else ()),
        *listed("assumes:", found.assumptions),
        *patch_lines(found.patches, style),
        "",
        *window_lines(found.window),
    ]
    return "\n".join(parts) + "\n"


def _before_and_after(found: TunedProposal) -> Iterator[str]:
    shown, now = found.shown, found.tuning.baseline
    if shown is None:
        return
    yield f"  {'':<12}{'now':<30}then (90 %)"
    for name, before, after, change in text.rows(now, shown.performance):
        yield f"  {name:<12}{before:<30}{after:<30}{change}".rstrip()
    yield ""
    if rows := text.stages(now, shown.performance):
        yield f"  {'stage':<24}{'queue':<22}{'batch size':<15}busy share"
        yield from (f"  {fitted(model, 23):<24}{queue:<22}{batch:<15}{busy}" for model, queue, batch, busy in rows)
        yield ""


def _runners_up(found: TunedProposal) -> Iterator[str]:
    rows = candidates(found)
    if not rows:
        return
    heads = ("would do as well", "mean", found.tuning.target.statistic, "instances", "GPU")
    yield from _table([heads, *rows])
    yield ""


def _table(rows: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    """Yield rows whose first cell may take lines of its own."""
    for first, *cells in rows:
        *above, last = wrapped(first, "  ", hang="  ") or [""]
        numbers = f"{cells[0]:<11}{cells[1]:<11}{cells[2]:<11}{cells[3]}"
        if len(last) > _FIRST:
            above, last = [*above, last], ""
        yield from above
        yield f"{last:<{_FIRST + 1}}{numbers}".rstrip()


_FIRST = 38


def carried_text(found: CarriedProposal, style: Style = plain) -> str:
    """Return the report on settings by the load that they carry."""
    heads = ("setting", "answered", "load", found.target.statistic, "instances")
    head = wrapped(carried_headline(found), hang="  ")
    parts = [
        *(style(line, "green" if found.found else "red") for line in head),
        "",
        *(_table([heads, *carried_rows(found)]) if found.found else ()),
        "",
        *wrapped(text.against_measurement(found.baseline, found.measured_mean) if found.load.same else ""),
        *listed("assumes:", found.assumptions),
        *patch_lines(found.patches, style),
        "",
        *window_lines(found.window),
    ]
    return "\n".join(parts) + "\n"


def tuned_markdown(found: TunedProposal) -> str:
    """Return the tuning as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found)) + "\n"


def carried_markdown(found: CarriedProposal) -> str:
    """Return settings by the load that they carry as Markdown."""
    return "\n".join(_carried(found)) + "\n"


def _lines(found: TunedProposal) -> Iterator[str]:
    yield f"**{escaped(headline(found))}**"
    for stated in (certainty(found), *reasons(found), cause(found)):
        if stated:
            yield from ("", f"{escaped(stated)}.")
    if found.shown is not None:
        after = found.shown.performance
        yield from table(("", "now", "then (90 %)", "change"), text.rows(found.tuning.baseline, after))
        if shown := text.stages(found.tuning.baseline, after):
            yield from table(("stage", "queue", "batch size", "busy share"), shown)
    if rows := candidates(found):
        yield from table(("would do as well", "mean", found.tuning.target.statistic, "instances", "GPU"), rows)
    yield from ("", f"{escaped(searched(found))}.")
    if found.load.same:
        yield from ("", f"{escaped(text.against_measurement(found.tuning.baseline, found.measured_mean))}.")
    yield from listed_markdown("The models by GPU", list(packing(found.packing)) if found.packing else ())
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(found.patches)


def _carried(found: CarriedProposal) -> Iterator[str]:
    yield f"**{escaped(carried_headline(found))}**"
    if found.found:
        heads = ("setting", "answered", "load", found.target.statistic, "instances")
        yield from table(heads, carried_rows(found))
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(found.patches)
