"""What text and Markdown say of forecasts, in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.proposal import LoadChange, Move, Proposal, SweepProposal
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.predict import SweepPoint
from diagnostics.render.explanation.markdown import fenced
from diagnostics.render.plain import (
    WIDTH,
    Style,
    code_lines,
    diff_colour,
    escaped,
    fitted,
    listed,
    plain,
    table,
    window_lines,
    wrapped,
)
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
        return f"{name} {NO_KEEPING_UP} now, then its mean is {_show(then.value)}: {what}"
    return f"{name}: mean {_show(now.value)} → {_show(then.value)}{relative(now, then)}: {what}"


def cannot_keep_up(one: Performance) -> str:
    """Return which stages more arrives at than they can serve; empty where all keep up."""
    stages = [stage.model for stage in one.stages if not stage.stable]
    if stages:
        return f"more arrives at {', '.join(stages)} than it can serve: its queue grows as long as this lasts"
    return "" if one.mean is not None else "no request would be answered that could be timed"


def rows(before: Performance, after: Performance) -> list[tuple[str, str, str, str]]:
    """Return what requests experience: a name, now, then, and the relative change."""
    found = []
    for name in STATISTICS:
        now, then = getattr(before, name), getattr(after, name)
        found.append((name, estimate(now), estimate(then), relative(now, then).strip(" ()")))
    rate = Unit.PER_SECOND.show
    served, later = before.throughput, after.throughput
    found.append(("throughput", rate(served.value), rate(later.value), relative(served, later).strip(" ()")))
    if before.rejected > 0 or after.rejected > 0:
        found.append(("rejected", rate(before.rejected), rate(after.rejected), ""))
    return found


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


def estimate(one: Estimate | None) -> str:
    """Return seconds with their interval: `121 ms (118 ms to 127 ms)`."""
    if one is None:
        return NO_KEEPING_UP
    ends = f"{_show(one.low)} or more" if one.high is None else f"{_show(one.low)} to {_show(one.high)}"
    return f"{_show(one.value)} ({ends})"


def against_measurement(baseline: Performance, measured: float | None) -> str:
    """Return how the model's account of the window compares with what was measured in it."""
    if measured is None or measured <= 0:
        return "the mean that was measured is not known, so the model could not be held against it"
    if baseline.mean is None:
        return f"the model says that this load cannot be kept up with; measured mean {_show(measured)}"
    off = (baseline.mean.value - measured) / measured
    shown = f"{_show(baseline.mean.value)}, measured {_show(measured)} ({_signed(off)})"
    text = f"the model's mean of this window is {shown}"
    if abs(off) <= _FAR:
        return text
    if baseline.accounts_for(measured):
        return f"{text}: within its interval, as near saturation a window of this length says little of the mean"
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


def forecast_text(proposal: Proposal, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    found = proposal.forecast
    parts = [
        *(style(line, _colour(proposal)) for line in wrapped(headline(proposal), hang="  ")),
        *wrapped(cannot_keep_up(found.predicted), "  "),
        "",
        *_table(proposal),
        "",
        *_stages(proposal),
        *wrapped(against_measurement(found.baseline, found.measured_mean)),
        *listed("assumes:", found.assumptions),
        *patch_lines(proposal.patches, style),
        "",
        *window_lines(proposal.window),
    ]
    return "\n".join(parts) + "\n"


def _colour(proposal: Proposal) -> str:
    now, then = proposal.forecast.baseline.mean, proposal.forecast.predicted.mean
    if then is None:
        return "red"
    if now is None or then.value < now.value:
        return "green"
    return "" if then.value == now.value else "yellow"


def _table(proposal: Proposal) -> Iterator[str]:
    yield f"  {'':<12}{'now, by the model':<30}then (90 %)"
    for name, now, then, change in rows(proposal.forecast.baseline, proposal.forecast.predicted):
        yield f"  {name:<12}{now:<30}{then:<30}{change}".rstrip()


def _stages(proposal: Proposal) -> Iterator[str]:
    shown = stages(proposal.forecast.baseline, proposal.forecast.predicted)
    if shown:
        yield f"  {'stage':<24}{'queue':<22}{'batch size':<15}busy share"
    for model, queue, batch, busy in shown:
        yield f"  {fitted(model, 23):<24}{queue:<22}{batch:<15}{busy}"
    if shown:
        yield ""


def patch_lines(patches: Sequence[tuple[str, Advice]], style: Style) -> Iterator[str]:
    """Yield how to apply each model's change, and its text."""
    for model, one in patches:
        yield ""
        if one.steps:
            yield from wrapped(f"{model}: {one.steps.touches}")
        if one.note:
            yield from wrapped(f"note: {one.note}", "  ")
        if one.patch is None:
            continue
        if one.steps:
            yield from wrapped(f"apply: {one.steps.apply}", "  ", hang="  ")
            yield from wrapped(f"undo: {one.steps.undo}", "  ", hang="  ")
        yield ""
        yield from (style(line, diff_colour(line)) for line in code_lines(one.patch.text))


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
    if sweep.model is None:
        return f"knee at {value}, the most throughput for its latency (Kleinrock's power)"
    if sweep.knee == len(sweep.points) - 1:
        return f"no knee up to {value}: more may bring more"
    return f"knee at {value}: nothing after it takes off another 5 % of the mean that is more than its interval"


def columns(proposal: SweepProposal) -> tuple[str, ...]:
    """Return the heads of the columns."""
    return ("value", "mean (90 %)", "p95", "answered", *_stage_columns(proposal), "")


def sweep_rows(proposal: SweepProposal) -> list[tuple[str, ...]]:
    """Return a row per value, the last cell a remark: `now`, `knee`."""
    return [
        (point.value, *_latency(point.performance), *_of_stage(proposal, point), sweep_remark(proposal, at))
        for at, point in enumerate(proposal.sweep.points)
    ]


def sweep_remark(proposal: SweepProposal, at: int) -> str:
    """Return what a value is: the one in effect, the knee, both or neither."""
    sweep = proposal.sweep
    marks = [word for word, place in (("now", sweep.now), ("knee", sweep.knee)) if place == at]
    return ", ".join(marks) if not _last_is_no_knee(proposal, at) else "now" if sweep.now == at else ""


def bars(points: Sequence[SweepPoint], columns: int) -> list[tuple[float, float] | None]:
    """Return per value the lengths, in columns, of its mean and of its p95; None where it cannot keep up.

    The longest p95 fills the columns.
    """
    found = [_bar(point.performance) for point in points]
    longest = max((p95 for bar in found if bar is not None for p95 in bar), default=0.0)
    if longest <= 0:
        return [None] * len(found)
    return [None if bar is None else (bar[0] / longest * columns, bar[1] / longest * columns) for bar in found]


def _last_is_no_knee(proposal: SweepProposal, at: int) -> bool:
    sweep = proposal.sweep
    return sweep.model is not None and at == sweep.knee == len(sweep.points) - 1


def _bar(one: Performance) -> tuple[float, float] | None:
    if one.mean is None:
        return None
    return one.mean.value, max(one.p95.value if one.p95 else 0.0, one.mean.value)


def _latency(one: Performance) -> tuple[str, str, str]:
    p95 = _show(one.p95.value) if one.p95 is not None else "—"
    return estimate(one.mean), p95, Unit.PER_SECOND.show(one.throughput.value)


def _stage_columns(proposal: SweepProposal) -> tuple[str, ...]:
    return ("queue", "busy") if proposal.sweep.model else ("busiest", "busy")


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


_BAR_COLUMNS = 52
_VALUE_COLUMNS = 8


class Ink(NamedTuple):
    """What bars are drawn with: full columns and the eighths that end them, and what lies between mean and p95."""

    full: str
    eighths: str
    tail: str


BLOCKS = Ink("█", " ▏▎▍▌▋▊▉", "░")
LETTERS = Ink("#", " ", ".")


def sweep_text(proposal: SweepProposal, style: Style = plain, ink: Ink = BLOCKS) -> str:
    """Return the report; `ink` draws the bars: blocks, or letters for terminals that have no others."""
    parts = [
        *wrapped(sweep_headline(proposal), hang="  "),
        "",
        *_sweep_table(proposal, style),
        "",
        *_plot(proposal, style, ink),
        "",
        *wrapped(against_measurement(proposal.baseline, proposal.measured_mean)),
        *listed("assumes:", proposal.assumptions),
        *patch_lines(proposal.patches, style),
        "",
        *window_lines(proposal.window),
    ]
    return "\n".join(parts) + "\n"


_SETTING_WIDTHS = (_VALUE_COLUMNS, 29, 9, 10, 9, 6)
_LOAD_WIDTHS = (_VALUE_COLUMNS, 29, 9, 10, 12, 6)


def _sweep_table(proposal: SweepProposal, style: Style) -> Iterator[str]:
    widths = _SETTING_WIDTHS if proposal.sweep.model is not None else _LOAD_WIDTHS
    yield _row(columns(proposal), widths)
    for at, row in enumerate(sweep_rows(proposal)):
        yield style(_row(row, widths), "green" if at == proposal.sweep.knee else "")


def _row(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    *shown, remark = cells
    text = "".join(f"{fitted(cell, width - 1):<{width}}" for cell, width in zip(shown, widths, strict=True))
    # The plot says it again.
    return (text if len(text) + len(remark) > WIDTH else f"{text}{remark}").rstrip()


def _plot(proposal: SweepProposal, style: Style, ink: Ink) -> Iterator[str]:
    yield f"{'':<{_VALUE_COLUMNS}}{ink.full} mean  {ink.tail} to p95"
    points = proposal.sweep.points
    for at, (point, bar) in enumerate(zip(points, bars(points, _BAR_COLUMNS), strict=True)):
        drawn = NO_KEEPING_UP if bar is None else _drawn(*bar, ink)
        line = f"{fitted(point.value, _VALUE_COLUMNS - 1):<{_VALUE_COLUMNS}}{drawn}"
        remark = sweep_remark(proposal, at)
        yield style(f"{line}  {remark}".rstrip(), "green" if at == proposal.sweep.knee else "")


def _drawn(mean: float, p95: float, ink: Ink) -> str:
    whole, part = int(mean), int((mean % 1) * len(ink.eighths))
    head = ink.full * whole + (ink.eighths[part] if part else "")
    return (head or ink.full) + ink.tail * max(round(p95) - max(len(head), 1), 0)


def forecast_markdown(proposal: Proposal) -> str:
    """Return the forecast as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(proposal)) + "\n"


def sweep_markdown(proposal: SweepProposal) -> str:
    """Return the sweep as Markdown."""
    return "\n".join(_sweep_lines(proposal)) + "\n"


def _lines(proposal: Proposal) -> Iterator[str]:
    found = proposal.forecast
    yield f"**{escaped(headline(proposal))}**"
    if reason := cannot_keep_up(found.predicted):
        yield from ("", f"{escaped(reason)}.")
    yield from table(("", "now, by the model", "then (90 %)", "change"), rows(found.baseline, found.predicted))
    shown = stages(found.baseline, found.predicted)
    if shown:
        yield from table(("stage", "queue", "batch size", "busy share"), shown)
    yield from ("", f"{escaped(against_measurement(found.baseline, found.measured_mean))}.")
    yield from listed_markdown("Assumes", found.assumptions)
    yield from patches_markdown(proposal.patches)


def _sweep_lines(proposal: SweepProposal) -> Iterator[str]:
    yield f"**{escaped(sweep_headline(proposal))}**"
    yield from table(columns(proposal), sweep_rows(proposal))
    yield from ("", f"{escaped(against_measurement(proposal.baseline, proposal.measured_mean))}.")
    yield from listed_markdown("Assumes", proposal.assumptions)
    yield from patches_markdown(proposal.patches)


def listed_markdown(title: str, items: Sequence[str]) -> Iterator[str]:
    """Yield a titled list; nothing for an empty one."""
    if items:
        yield from ("", f"### {title}", "", *(f"- {escaped(item)}" for item in items))


def patches_markdown(patches: Sequence[tuple[str, Advice]]) -> Iterator[str]:
    """Yield how to apply each model's change, and its text."""
    for model, one in patches:
        steps = one.steps
        reported = [steps.touches, f"apply: {steps.apply}", f"undo: {steps.undo}"] if steps and one.patch else []
        reported += [one.note] if one.note else []
        yield from ("", f"### {escaped(model)}", "", *(f"- {escaped(item)}" for item in reported))
        if one.patch:
            yield from ("", *fenced(one.patch.text, "diff" if one.patch.base == "file" else "protobuf"))
