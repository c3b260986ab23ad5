"""What is said of forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposal import LoadChange, Move, Proposal, SweepProposal
from diagnostics.forecast.performance import EngineLatency, Estimate, Performance, StagePerformance, saving
from diagnostics.forecast.predict import SweepPoint, unlike
from diagnostics.render.document import (
    BarRow,
    Bars,
    Block,
    Document,
    Headline,
    Points,
    Sentence,
    ShownBar,
    Table,
    TableColumn,
    patch_blocks,
)
from diagnostics.render.phrases import saved
from diagnostics.render.plain import window_text
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import SettingValue, WarmupChange
from diagnostics.units import Unit

_show = Unit.SECONDS.show
# A model that is this far from what was measured is off by more than a forecast's usual error.
_FAR = 0.15
STATISTICS = ("mean", "p50", "p95", "p99")
NO_KEEPING_UP = "cannot keep up"


def entry_name(on: Subject) -> str:
    """Return the name of what clients call."""
    return on.ensemble or on.model or on.server


def setting_text(value: SettingValue) -> str:
    """Return a setting's value as `--set` takes it; a dash for an absent one."""
    match value:
        case None:
            return "—"
        case bool():
            return "on" if value else "off"
        case tuple():
            return ", ".join(map(str, value))
        case WarmupChange():
            return ", ".join(f"batch {size}" for size in value.batch_sizes)
        case _:
            return str(value)


def move(one: Move) -> str:
    """Return a setting's change: `safety instance_group.count 1 → 3`."""
    before = setting_text(one.before) if one.known else "unknown"
    return f"{one.model} {one.path} {before} → {setting_text(one.after)}"


def load(one: LoadChange) -> Iterator[str]:
    """Yield how the traffic changes; nothing where it does not."""
    if one.rate_factor != 1.0:
        yield f"{_factor(one.rate_factor)} times the arrivals"
    if one.clients is not None:
        yield f"{one.clients} clients"
    for factor, what in ((one.prompt_factor, "prompts"), (one.output_factor, "answers")):
        if factor != 1.0:
            yield f"{_factor(factor)} times the tokens of {what}"


def _factor(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def change(proposal: Proposal | SweepProposal) -> str:
    """Return all that changes in one phrase; empty where nothing does."""
    return ", ".join((*(move(one) for one in proposal.moves), *load(proposal.load)))


def headline(proposal: Proposal) -> str:
    """Return what the change does to the mean, in one sentence.

    Before and after are the model's: held against the measured mean, the model's own error would pass for an effect.
    """
    found, name = proposal.forecast, entry_name(proposal.on)
    now, then = found.baseline.mean, found.predicted.mean
    what = change(proposal) or "nothing changes"
    if then is None:
        return f"{name} {NO_KEEPING_UP}: {what}"
    if now is None:
        return f"{name} {NO_KEEPING_UP} now, then its modelled mean is {_show(then.value)}: {what}"
    return f"{name}: modelled mean {_show(now.value)} → {_show(then.value)}{relative(now, then)}: {what}"


def cannot_keep_up(one: Performance) -> str:
    """Return which stages more arrives at than they can serve; empty where all keep up."""
    stages = [stage.model for stage in one.stages if not stage.stable]
    if stages:
        return f"more arrives at {', '.join(stages)} than it can serve: its queue grows as long as this lasts"
    return "" if one.mean is not None else "no request would be answered that could be timed"


def rows(before: Performance, after: Performance, *, rough: bool = False) -> list[tuple[str, str, str, str]]:
    """Return what requests experience: a name, now, then, and the relative change; without intervals where `rough`."""
    found = []
    for name in STATISTICS:
        now, then = getattr(before, name), getattr(after, name)
        shown = (estimate(now, rough=rough), estimate(then, rough=rough))
        found.append((name, *shown, relative(now, then).strip(" ()")))
    rate = Unit.PER_SECOND.show
    served, later = before.throughput, after.throughput
    found.append(("throughput", rate(served.value), rate(later.value), relative(served, later).strip(" ()")))
    if before.engine is not None and after.engine is not None:
        found += _engine_rows(before.engine, after.engine)
    if before.rejected > 0 or after.rejected > 0:
        found.append(("rejected", rate(before.rejected), rate(after.rejected), ""))
    return found


_ENGINE_TIMES = {
    "TTFT mean": "first_token",
    "TTFT p95": "first_token_p95",
    "per token": "per_token",
    "in queue": "queue",
}


def _engine_rows(before: EngineLatency, after: EngineLatency) -> Iterator[tuple[str, str, str, str]]:
    """Yield what requests experience in an engine."""
    for title, name in _ENGINE_TIMES.items():
        now, then = getattr(before, name), getattr(after, name)
        yield title, estimate(now), estimate(then), relative(now, then).strip(" ()")
    count, share = Unit.COUNT.show, Unit.RATIO.show
    yield "running", count(before.running.value), count(after.running.value), ""
    if before.cache_share is not None and after.cache_share is not None:
        yield "KV cache", share(before.cache_share.value), share(after.cache_share.value), ""


def stages(before: Performance, after: Performance) -> list[tuple[str, str, str, str]]:
    """Return per stage, in order: its name, and queue, batch size and busy share before and after."""
    then = {stage.model: stage for stage in after.stages}
    found = []
    for now in before.stages:
        if now.model not in then:
            continue
        other = then[now.model]
        found.append(
            (
                now.model,
                _both(_queue(now.queue_mean), _queue(other.queue_mean)),
                _both(_batch(now.batch_size_mean), _batch(other.batch_size_mean)),
                _both(Unit.RATIO.show(now.busy_share.value), Unit.RATIO.show(other.busy_share.value)),
            )
        )
    return found


def estimate(one: Estimate | None, *, rough: bool = False) -> str:
    """Return seconds with their interval, `121 ms (118 ms to 127 ms)`; without it where `rough`."""
    if one is None:
        return NO_KEEPING_UP
    if rough:
        return _show(one.value)
    ends = f"{_show(one.low)} or more" if one.high is None else f"{_show(one.low)} to {_show(one.high)}"
    return f"{_show(one.value)} ({ends})"


def against_measurement(baseline: Performance, measured: float | None, p95: float | None, window: WindowFacts) -> str:
    """Return what was measured of the window, and how the model's account of the same window compares.

    Args:
        baseline: the model's account.
        measured: mean seconds that were measured; None where unknown.
        p95: the 95th percentile of traced requests, in seconds; None without traces.
        window: when that was.

    """
    if measured is None or measured <= 0:
        return "the mean that was measured is not known, so the model could not be held against it"
    over = "" if window.untimed else f" over {_show(window.end - window.start)}"
    seen = f"measured{over}: mean {_show(measured)}{f', p95 {_show(p95)} (of traced requests)' if p95 else ''}"
    if baseline.mean is None:
        return f"{seen}; the model predicts no stable queue at this load"
    off = (baseline.mean.value - measured) / measured
    text = f"{seen}; modelled of the same window: mean {_show(baseline.mean.value)} ({_signed(off)})"
    off_p95 = 0.0
    if p95 and baseline.p95 is not None:
        off_p95 = (baseline.p95.value - p95) / p95
        text += f", p95 {_show(baseline.p95.value)} ({_signed(off_p95)})"
    if abs(off) <= _FAR:
        return f"{text}: trust the mean more than the percentiles" if abs(off_p95) > _FAR else text
    if baseline.accounts_for(measured):
        return f"{text}: within its interval: near saturation, a window of this length gives only a rough mean"
    if baseline.misses(measured):
        return f"{text}: trust neither the numbers nor the order of alternatives"
    return f"{text}: trust the order of alternatives more than the numbers"


def relative(now: Estimate | None, then: Estimate | None) -> str:
    """Return the change of a number as a share in brackets, a space before it; empty where there is none."""
    if now is None or then is None or now.value <= 0:
        return ""
    return f" ({_signed((then.value - now.value) / now.value)})"


def _signed(share: float) -> str:
    return "±0 %" if abs(share) < 0.005 else f"{share * 100:+.0f} %".replace("-", "−")


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _queue(one: Estimate | None) -> str:
    return "grows" if one is None else _show(one.value)


def _batch(size: float | None) -> str:
    return "—" if size is None else f"{size:.3g}"


_NO_INTERVAL = "It lacks more than half of the measured time, so no interval is shown"


def warning(baseline: Performance, measured: float | None) -> str:
    """Return that the model does not reproduce what was measured; empty where it does, or nothing was measured."""
    stated = unlike(measured, baseline)
    mean = baseline.mean
    if not stated and measured and mean is not None and abs(mean.value - measured) > _FAR * measured:
        gives = f"The simulation gives {_show(mean.value)}, but {_show(measured)} was measured"
        return f"{gives}: near saturation, both are rough"
    return ". ".join((*stated, *([_NO_INTERVAL] if stated and baseline.misses(measured) else [])))


def further(assumptions: Sequence[str], shown: str) -> Sequence[str]:
    """Return the assumptions that the first lines do not hold."""
    return [one for one in assumptions if one not in shown]


def forecast_document(proposal: Proposal) -> Document:
    """Return what the change does."""
    found = proposal.forecast
    warned = warning(found.baseline, found.measured_mean)
    return [
        Headline(text=headline(proposal), colour=_colour(proposal)),
        Sentence(text=warned, under=2),
        Sentence(text=cannot_keep_up(found.predicted), under=2),
        Sentence(text=proposal.doubt, under=2),
        *before_and_after(found.baseline, found.predicted, rough=found.misses),
        Sentence(text=against_measurement(found.baseline, found.measured_mean, found.measured_p95, proposal.window)),
        *ending(further(found.assumptions, f"{warned} {proposal.doubt}"), proposal.patches, proposal.window),
    ]


def _colour(proposal: Proposal) -> str:
    now, then = proposal.forecast.baseline.mean, proposal.forecast.predicted.mean
    if then is None:
        return "red"
    if now is None or then.value < now.value:
        return "green"
    return "" if then.value == now.value else "yellow"


def before_and_after(before: Performance, after: Performance, *, rough: bool) -> Iterator[Block]:
    """Yield tables of what requests experience and of the stages, before a change and after it; both by the model.

    Numbers have no intervals where the model is too `rough`.
    """
    part = "" if rough else " (90 %)"
    yield Table(
        columns=(
            TableColumn(width=12),
            TableColumn(head=f"now, modelled{part}", width=30),
            TableColumn(head=f"then, modelled{part}", width=30),
            TableColumn(head="change"),
        ),
        rows=rows(before, after, rough=rough),
    )
    difference = None if rough else saving(before, after)
    yield Sentence(text=f"on average, a request {saved(difference)}" if difference else "", under=2)
    yield Table(
        columns=(
            TableColumn(head="stage", width=24),
            TableColumn(head="queue", width=22),
            TableColumn(head="batch size", width=15),
            TableColumn(head="busy share"),
        ),
        rows=stages(before, after),
    )
    yield Sentence(text=busy_engines([before]), under=2)


def busy_engines(found: Sequence[Performance]) -> str:
    """Return what the busy share of engines is; empty without an engine."""
    names = ", ".join(dict.fromkeys(stage.model for one in found for stage in one.stages if stage.engine))
    how = "busy is the time in which it iterates, with one request or many"
    return f"{names} is an engine: {how}" if names else ""


def ending(assumptions: Sequence[str], patches: Sequence[tuple[str, Advice]], window: WindowFacts) -> Iterator[Block]:
    """Yield what the answer assumes, the patches, and the window that it is made from."""
    yield Points(title="assumes", items=assumptions)
    for model, advice in patches:
        yield from patch_blocks(model, advice)
    yield Sentence(text=window_text(window))


def sweep_headline(proposal: SweepProposal) -> str:
    """Return what is varied, and where more brings no more."""
    beside = f" with {change(proposal)}" if change(proposal) else ""
    return f"{entry_name(proposal.on)} over {proposal.sweep.name}{beside}; {knee(proposal)}"


def knee(proposal: SweepProposal) -> str:
    """Return where more brings no more."""
    sweep = proposal.sweep
    if sweep.knee is None:
        kept = sweep.model is not None and any(point.performance.mean is not None for point in sweep.points)
        return "no knee: its values have no order" if kept else "no value keeps up with what arrives for sure"
    value = sweep.points[sweep.knee].value
    if sweep.model is None and _last_is_no_knee(proposal, sweep.knee):
        return f"no knee up to {value}: throughput still grows faster than latency; sweep higher loads"
    if sweep.model is None:
        return f"knee at {value}, the most throughput for its latency (Kleinrock's power)"
    if sweep.knee == len(sweep.points) - 1:
        return f"no knee up to {value}: more may bring more"
    return f"knee at {value}: beyond it, no value cuts the mean by another 5 % with certainty"


def sweep_remark(proposal: SweepProposal, at: int) -> str:
    """Return what a value is: the one in effect, the knee, both or neither."""
    sweep = proposal.sweep
    marks = [word for word, place in (("now", sweep.now), ("knee", sweep.knee)) if place == at]
    return ", ".join(marks) if not _last_is_no_knee(proposal, at) else "now" if sweep.now == at else ""


def _last_is_no_knee(proposal: SweepProposal, at: int) -> bool:
    sweep = proposal.sweep
    places = range(len(sweep.points))
    if sweep.model is None:  # loads may be given in any order
        most = max(places, key=lambda place: (sweep.points[place].performance.throughput.value, place))
        return at == sweep.knee == most
    return at == sweep.knee == places[-1]


def _latency(one: Performance, *, rough: bool) -> tuple[str, str, str]:
    p95 = _show(one.p95.value) if one.p95 is not None else "—"
    return estimate(one.mean, rough=rough), p95, Unit.PER_SECOND.show(one.throughput.value)


def _of_stage(proposal: SweepProposal, point: SweepPoint) -> tuple[str, str]:
    stages = point.performance.stages
    if not stages:
        return "—", "—"
    if proposal.sweep.model is None:
        busiest = max(stages, key=lambda stage: stage.busy_share.value)
        return busiest.model, Unit.RATIO.show(busiest.busy_share.value)
    stage = next((one for one in stages if one.model == proposal.sweep.model), None)
    return ("—", "—") if stage is None else (_sweep_queue(stage), Unit.RATIO.show(stage.busy_share.value))


def _sweep_queue(stage: StagePerformance) -> str:
    return "grows" if stage.queue_mean is None else _show(stage.queue_mean.value)


def sweep_document(proposal: SweepProposal) -> Document:
    """Return what each value of what is varied does."""
    warned = warning(proposal.baseline, proposal.measured_mean)
    return [
        Headline(text=sweep_headline(proposal)),
        Sentence(text=warned, under=2),
        _sweep_table(proposal),
        Sentence(text=busy_engines([point.performance for point in proposal.sweep.points]), under=2),
        _plot(proposal),
        Sentence(
            text=against_measurement(proposal.baseline, proposal.measured_mean, proposal.measured_p95, proposal.window)
        ),
        *ending(further(proposal.assumptions, warned), proposal.patches, proposal.window),
    ]


def _sweep_table(proposal: SweepProposal) -> Table:
    sweep = proposal.sweep
    stage = (("queue", 9), ("busy", 6)) if sweep.model else (("busiest", 11), ("busy", 6))
    latency = (
        ("mean" if proposal.misses else "mean (90 %)", 29),
        ("p95", 9 if sweep.model else 8),
        ("answered", 10 if sweep.model else 9),
    )
    heads = (("value", 8), *latency, *stage, ("", 0))
    return Table(
        columns=[TableColumn(head=head, width=width) for head, width in heads],
        rows=[
            (
                point.value,
                *_latency(point.performance, rough=proposal.misses),
                *_of_stage(proposal, point),
                sweep_remark(proposal, at),
            )
            for at, point in enumerate(sweep.points)
        ],
        marked=sweep.knee,
        indent=0,
    )


def _plot(proposal: SweepProposal) -> Bars:
    points = proposal.sweep.points
    lengths = [_mean_and_p95(point.performance) for point in points]
    longest = max((to for length in lengths if length for to in length), default=0.0)
    rows = [
        BarRow(
            label=point.value,
            bars=[_bar(length if longest > 0 else None, longest)],
            remark=sweep_remark(proposal, at),
            marked=at == proposal.sweep.knee,
        )
        for at, (point, length) in enumerate(zip(points, lengths, strict=True))
    ]
    return Bars(rows=rows, legend=("mean", "to p95"))


def _bar(length: tuple[float, float] | None, longest: float) -> ShownBar:
    if length is None:
        return ShownBar(full=None, shown=NO_KEEPING_UP)
    return ShownBar(full=length[0] / longest, to=length[1] / longest)


def _mean_and_p95(one: Performance) -> tuple[float, float] | None:
    if one.mean is None:
        return None
    return one.mean.value, max(one.p95.value if one.p95 else 0.0, one.mean.value)
