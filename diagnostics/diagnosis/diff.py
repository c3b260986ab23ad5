"""What changed between two windows, and which change explains the latency.

Each difference of the anatomy is put down to what changed at its stage: settings, the version, the size of requests,
else the load. Where settings and load both changed, the scheduler model says what the load alone would have done to the
old settings. What nothing explains is said to be so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.diagnosis.diff_shares import (
    Cell,
    ChangeShare,
    DifferenceCause,
    Sides,
    cells_of,
    entry_subject,
    shares_of,
)
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE
from diagnostics.signals.reading import Reading
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.settings_diff import SettingChange, changed_settings


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

    """

    name: str
    mean_before: Reading
    mean_after: Reading
    rate_before: Reading
    rate_after: Reading
    load_differs: bool
    cells: tuple[Cell, ...]
    shares: tuple[ChangeShare, ...]

    @property
    def change(self) -> float:
        """Seconds of mean latency, after minus before."""
        return (self.mean_after.value or 0.0) - (self.mean_before.value or 0.0)

    @property
    def matters(self) -> bool:
        """Whether the change is worth a word: 15 % and 5 ms, as for a finding."""
        base = min(self.mean_before.value or 0.0, self.mean_after.value or 0.0)
        return abs(self.change) >= max(WORTHWHILE_SECONDS, WORTHWHILE_SHARE * base)

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
    old, new = ({_what(finding): finding for finding in side.loud} for side in (before, after))
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
    )


def _mean(evidence: Evidence, anatomy: Anatomy) -> Reading:
    return evidence.read(REQUEST_SECONDS, entry_subject(anatomy))


def _rate(evidence: Evidence, anatomy: Anatomy) -> Reading:
    return evidence.read(ARRIVAL_RATE, entry_subject(anatomy))
