"""What text and Markdown say of forecasts, in the same words."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.proposal import LoadChange, Move, Proposal, SweepProposal
from diagnostics.forecast.performance import Estimate, Performance
from diagnostics.signals.subject import Subject
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
