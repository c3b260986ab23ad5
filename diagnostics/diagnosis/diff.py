"""Which change explains a difference between two windows, cell by cell of the anatomy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite, sqrt

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.evidence.ledger import Ledger, Undecided, least_worthwhile
from diagnostics.signals.arrivals import BURST_CERTAINTY, BURST_SIZE
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.changes import SettingChange, changed_settings
from diagnostics.tuning.queueing import StageLoad, predict

# A load differs when chance would show the difference once in a million pairs and it is a tenth at least: counters of
# half a minute of independent requests differ by several per cent of themselves.
CERTAIN, TENTH = 4.75, 0.1
# From four requests that arrive together bursts make most of a queue (as for `bursty-arrivals`).
BUNCHED = 4.0


class DifferenceCause(StrEnum):
    """What a difference is put down to."""

    CONFIGURATION = "configuration"
    VERSION = "version"
    REQUEST_SIZE = "request size"
    ARRIVALS = "arrival pattern"
    LOAD = "load"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Seconds per request of one stage's phase, before and after."""

    stage: str
    phase: Phase
    before: float
    after: float

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeShare:
    """Seconds per request that one change explains. `model` is empty for the load; `why` says what changed."""

    cause: DifferenceCause
    model: str
    seconds: float
    why: str


def load_differs(before: Reading, after: Reading) -> bool:
    """Return whether two rates differ by a tenth and by more than independent arrivals do by chance."""
    if before.value is None or after.value is None or not before.events or not after.events:
        return False
    spread = sqrt(before.value**2 / before.events + after.value**2 / after.events)
    change = abs(after.value - before.value)
    return change >= CERTAIN * spread and change >= TENTH * max(before.value, 1e-9)


def cells_of(then: Anatomy, now: Anatomy) -> Iterator[Cell]:
    """Yield what a request spends in each cell on both sides; off the critical path, no more than that can cost."""
    old, new = (
        {
            (stage.model, phase): min(seconds, stage.most_seconds)
            for stage in side.stages
            for phase, seconds in stage.cells.items()
        }
        for side in (then, now)
    )
    for stage, phase in {**old, **new}:
        yield Cell(stage=stage, phase=phase, before=old.get((stage, phase), 0.0), after=new.get((stage, phase), 0.0))
    yield Cell(stage="", phase=Phase.GAP, before=then.unattributed_seconds, after=now.unattributed_seconds)


@dataclass(frozen=True, slots=True)
class Sides:
    """Both windows as one entry sees them, and what changed in configuration and versions."""

    before: Evidence
    after: Evidence
    then: Anatomy
    now: Anatomy
    changed: Sequence[SettingChange]
    rates: tuple[Reading, Reading]

    @property
    def load_differs(self) -> bool:
        """Whether more or less arrives, beyond chance."""
        return load_differs(*self.rates)

    def groups(self) -> tuple[float, float] | None:
        """Return the size of the groups that requests arrive in, before and after, if one side has bursts."""
        sizes = [
            _bursts(self.before, self.then),
            _bursts(self.after, self.now),
        ]
        old, new = sizes
        return (old, new) if old is not None and new is not None and (old > 1) != (new > 1) else None

    def settings(self, model: str) -> list[SettingChange]:
        """Return the changed settings of a stage."""
        return [c for c in self.changed if c.model == model and c.path != "version"]

    def version(self, model: str) -> SettingChange | None:
        """Return the change of a stage's version."""
        return next((c for c in self.changed if c.model == model and c.path == "version"), None)

    def sizes(self, model: str) -> tuple[float, float] | None:
        """Return items per request before and after where they differ by a tenth, else None."""
        old = self.before.read(CLIENT_BATCH_SIZE, Subject(server=self.then.server, model=model)).value
        new = self.after.read(CLIENT_BATCH_SIZE, Subject(server=self.now.server, model=model)).value
        return (old, new) if old and new and abs(new - old) >= TENTH * old else None


def shares_of(sides: Sides, cells: Sequence[Cell]) -> tuple[ChangeShare, ...]:
    found: dict[tuple[DifferenceCause, str, str], float] = {}
    for cell in cells:
        for cause, model, why, seconds in _explain(sides, cell):
            key = (cause, model, why)
            found[key] = found.get(key, 0.0) + seconds
    shares = (
        ChangeShare(cause=c, model=m, why=why, seconds=seconds) for (c, m, why), seconds in found.items() if seconds
    )
    return tuple(sorted(shares, key=lambda share: -abs(share.seconds)))


def _bursts(evidence: Evidence, anatomy: Anatomy) -> float | None:
    """Return the size of the groups in which an entry's requests arrive; 1 when they are independent."""
    on = entry_subject(anatomy)
    size, certain = evidence.read(BURST_SIZE, on).value, evidence.read(BURST_CERTAINTY, on).value
    if size is None or certain is None:
        return None
    return size if size >= BUNCHED and certain >= CERTAIN else 1.0


def entry_subject(anatomy: Anatomy) -> Subject:
    """Return what an anatomy is of: the ensemble, or the model that is called directly."""
    model = None if anatomy.ensemble else anatomy.stages[0].model
    return Subject(server=anatomy.server, model=model, ensemble=anatomy.ensemble)


def _value(reading: Reading) -> float:
    return reading.value or 0.0


_WAITS = (Phase.QUEUE, Phase.ENGINE)
_Part = tuple[DifferenceCause, str, str, float]


def _explain(sides: Sides, cell: Cell) -> Iterator[_Part]:
    """Yield what a cell's difference is put down to; the parts add up to it."""
    settings, version, sizes = sides.settings(cell.stage), sides.version(cell.stage), sides.sizes(cell.stage)
    load = (DifferenceCause.LOAD, "", _rates(sides.rates))
    own: tuple[DifferenceCause, str, str] | None = None
    if settings:
        own = (DifferenceCause.CONFIGURATION, cell.stage, ", ".join(map(str, settings)))
    elif version is not None:
        own = (DifferenceCause.VERSION, cell.stage, str(version))
    elif sizes is not None:
        own = (DifferenceCause.REQUEST_SIZE, cell.stage, f"items per request {sizes[0]:.3g} → {sizes[1]:.3g}")
    if own is None and cell.phase in _WAITS and (groups := sides.groups()) is not None:
        own = (DifferenceCause.ARRIVALS, "", f"requests arrive in groups of {groups[0]:.0f} → {groups[1]:.0f}")
    by_load = _by_load(sides, cell, alone=own is None)
    if by_load:
        yield (*load, by_load)
    rest = cell.change - by_load
    where = f"{cell.phase.value} of {cell.stage}" if cell.stage else "between stages"
    yield (*(own or (DifferenceCause.UNEXPLAINED, cell.stage, where)), rest)


def _rates(rates: tuple[Reading, Reading]) -> str:
    before, after = (rate.unit.show(rate.value) for rate in rates)
    return f"{before} → {after}"


def _by_load(sides: Sides, cell: Cell, *, alone: bool) -> float:
    """Return the seconds of a cell that the load explains: all of a queue if nothing else changed at the stage.

    If something did, what the scheduler model says that the new load does to the old settings, as a ratio applied to
    the queue measured before; everything where they could not keep up with it; 0 where it cannot say.
    """
    if not sides.load_differs or cell.phase not in _WAITS:
        return 0.0
    if alone:
        more = _value(sides.rates[1]) - _value(sides.rates[0])
        # Less load never makes anyone wait longer.
        return cell.change if more * cell.change > 0 else 0.0
    ratio = _queue_ratio(sides, cell.stage) if cell.phase is Phase.QUEUE else None
    if ratio is None:
        return 0.0
    return cell.before * (ratio - 1.0) if isfinite(ratio) else cell.change


def _queue_ratio(sides: Sides, stage: str) -> float | None:
    """Return the old settings' queue at the new load ÷ at the old one; infinite if they cannot keep up."""
    old = _load(sides.before, Subject(server=sides.then.server, model=stage))
    new = _load(sides.after, Subject(server=sides.now.server, model=stage))
    if old is None or new is None:
        return None
    now, then = predict(replace(old, arrival_rate=new.arrival_rate)).queue_seconds, predict(old).queue_seconds
    if then is None:
        return None
    return now / then if now is not None and then > 0 else inf


def _load(evidence: Evidence, on: Subject) -> StageLoad | None:
    try:
        return stage_load(Ledger(evidence, lambda _: None), on)
    except Undecided:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDifference:
    """One entry in both windows.

    Attributes:
        name: the ensemble, or the model that is called directly.
        mean_before, mean_after: mean end-to-end seconds, with their intervals.
        rate_before, rate_after: requests per second that arrive, with their intervals.
        load_differs: whether more or less arrives, beyond chance.
        cells: what differs, largest first.
        shares: what explains it, largest first; they add up to the difference of the cells.
        traced: whether cells of either window are of traced requests, which are some of those of the mean.

    """

    name: str
    mean_before: Reading
    mean_after: Reading
    rate_before: Reading
    rate_after: Reading
    load_differs: bool
    cells: tuple[Cell, ...]
    shares: tuple[ChangeShare, ...]
    traced: bool

    @property
    def change(self) -> float:
        """Seconds of mean latency, after minus before."""
        return (self.mean_after.value or 0.0) - (self.mean_before.value or 0.0)

    @property
    def matters(self) -> bool:
        """Whether the change is worth a word: 15 % and 5 ms, as for a finding."""
        base = min(self.mean_before.value or 0.0, self.mean_after.value or 0.0)
        return abs(self.change) >= least_worthwhile(base)

    @property
    def main(self) -> ChangeShare | None:
        """The change that explains most, in the direction in which latency went; None when none does."""
        along = [s for s in self.shares if s.seconds * self.change > 0 and s.cause is not DifferenceCause.UNEXPLAINED]
        found = max(along, key=lambda share: abs(share.seconds), default=None)
        return found if found is not None and abs(found.seconds) >= abs(self.change) / 2 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDiff:
    """Two windows side by side.

    Attributes:
        entries: what users call in both, those whose latency changed first.
        configured: settings that differ; None when no configuration was read on one side.

    """

    before: Explanation
    after: Explanation
    entries: tuple[EntryDifference, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    configured: tuple[SettingChange, ...] | None
    versions: tuple[SettingChange, ...]
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]


def difference(before: Explanation, after: Explanation) -> WindowDiff:
    """Return what changed from one explained window to another."""
    then, now = _entries(before), _entries(after)
    configured, versions = _configured(before.evidence, after.evidence), _versions(before.evidence, after.evidence)
    changed = (*(configured or ()), *(change for change in versions if change.model))
    shared = [name for name in then if name in now]
    entries = (_entry(name, before, after, then[name], now[name], changed) for name in shared)
    old, new = ({_what(finding): finding for finding in side.actionable} for side in (before, after))
    return WindowDiff(
        before=before,
        after=after,
        entries=tuple(sorted(entries, key=lambda entry: not entry.matters)),
        only_before=tuple(name for name in then if name not in now),
        only_after=tuple(name for name in now if name not in then),
        configured=configured,
        versions=versions,
        gone=tuple(finding for what, finding in old.items() if what not in new),
        new=tuple(finding for what, finding in new.items() if what not in old),
    )


def _what(finding: Finding) -> tuple[str, str | None]:
    return finding.check, finding.subject.model or finding.subject.ensemble


def _entries(side: Explanation) -> dict[str, Anatomy]:
    found: dict[str, Anatomy] = {}
    for anatomy in side.anatomy:
        found.setdefault(anatomy.ensemble or anatomy.stages[0].model, anatomy)
    return found


def _configs(evidence: Evidence) -> dict[str, Subject]:
    subjects = (*evidence.subjects(Scope.MODEL), *evidence.subjects(Scope.ENSEMBLE))
    return {on.model or on.ensemble or "": on for on in subjects}


def _configured(before: Evidence, after: Evidence) -> tuple[SettingChange, ...] | None:
    then, now = _configs(before), _configs(after)
    known = [all(side.config(on) for on in models.values()) for side, models in ((before, then), (after, now))]
    if not any(known):
        return None
    return tuple(
        change
        for name in sorted({*then, *now})
        if name in then and name in now
        for change in changed_settings(name, before.config(then[name]), after.config(now[name]))
    )


def _versions(before: Evidence, after: Evidence) -> tuple[SettingChange, ...]:
    """Return models whose working versions differ, models that came or went, and another Triton (`model` empty)."""
    then, now = _working(before), _working(after)
    models = sorted({*then, *now})
    found = [(name, "version", then.get(name, "—"), now.get(name, "—")) for name in models]
    found.append(("", "Triton", _triton(before), _triton(after)))
    return tuple(SettingChange(model=m, path=path, before=a, after=b) for m, path, a, b in found if a != b)


def _working(evidence: Evidence) -> dict[str, str]:
    served: dict[str, set[str]] = {}
    for on in evidence.subjects(Scope.MODEL):
        if on.model and evidence.read(REQUESTS, on).value:
            served.setdefault(on.model, set()).add(on.version or "")
    return {model: ", ".join(sorted(versions)) for model, versions in served.items()}


def _triton(evidence: Evidence) -> str:
    if not isinstance(evidence, WindowEvidence):
        return "—"
    servers = evidence.window.servers.values()
    return ", ".join(sorted({server.metadata.version for server in servers if server.metadata})) or "—"


def _entry(
    name: str,
    before: Explanation,
    after: Explanation,
    then: Anatomy,
    now: Anatomy,
    changed: Sequence[SettingChange],
) -> EntryDifference:
    rates = _rate(before.evidence, then), _rate(after.evidence, now)
    cells = sorted(cells_of(then, now), key=lambda cell: -abs(cell.change))
    sides = Sides(before.evidence, after.evidence, then, now, changed, rates)
    return EntryDifference(
        name=name,
        mean_before=_mean(before.evidence, then),
        mean_after=_mean(after.evidence, now),
        rate_before=rates[0],
        rate_after=rates[1],
        load_differs=sides.load_differs,
        cells=tuple(cell for cell in cells if cell.change),
        shares=shares_of(sides, cells),
        traced=bool(then.traced or now.traced),
    )


def _mean(evidence: Evidence, anatomy: Anatomy) -> Reading:
    return evidence.read(REQUEST_SECONDS, entry_subject(anatomy))


def _rate(evidence: Evidence, anatomy: Anatomy) -> Reading:
    return evidence.read(ARRIVAL_RATE, entry_subject(anatomy))
