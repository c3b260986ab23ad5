"""Deploys that the service sees by itself: loads of models, restarts and new settings, and rollouts of found pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from diagnostics.service.attention import SAME_SECONDS, Attention
from diagnostics.service.found_servers import FoundServer
from diagnostics.service.state import Evaluation
from diagnostics.signals.signal import Scope
from diagnostics.store.journal import JournalAction, JournalEntry
from diagnostics.window.lifecycle import Happened, ServerChange

WHO = "diag"
ROLLOUT = "rollout"
# Of one server and window: each is compared with all others.
MOST_CHANGES = 500
_NAMED = 3
# Characters of a text, as of one that is posted.
_LONGEST = 400
_IMAGE, _REVISION = "image", "revision"
# Seconds within which a restart has loaded all models, and a new version has taken the place of the one before.
_TOGETHER = 300.0
_LOADS = (Happened.LOADED, Happened.RELOADED)


class ObservedChanges:
    """A consumer of verdicts that marks what happened to the models of a deployment. For use by one thread."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention

    def consume(self, evaluation: Evaluation) -> None:
        """Mark the changes of a verdict's window."""
        evidence, since = evaluation.explanation.evidence, evaluation.explanation.window.start
        for on in evidence.subjects(Scope.SERVER):
            inside = [one for one in evidence.changes(on.server) if one.at >= since][-MOST_CHANGES:]
            for kind, text, at in _marks(inside, on.server, evidence.graph(on.server).ensembles):
                self._attention.observe(_entry(evaluation.deployment, on.server, kind, text, at))


def _marks(
    changes: Sequence[ServerChange], server: str, ensembles: Collection[str] = ()
) -> Iterator[tuple[str, str, float]]:
    """Yield kind, text and Unix second of each change; models that changed at about the same time are one."""
    left = [one for one in changes if not _is_part(one, changes, ensembles)]
    for kind in Happened:
        for group in _together([one for one in left if one.kind is kind]):
            yield kind.value, f"{_shown(kind, group)} on {server}", group[0].at


def _shown(kind: Happened, group: Sequence[ServerChange]) -> str:
    """Return several changes of one kind in a line: which models, and of settings each change."""
    named = list(dict.fromkeys(str(one) if kind is Happened.CONFIGURED else one.model for one in group))
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    if kind is Happened.CONFIGURED:
        return f"{'; '.join(named[:_NAMED])}{more}"[:_LONGEST]
    return f"{', '.join(named[:_NAMED])}{more} {kind.value}" if len(named) > 1 else str(group[0])


def _is_part(one: ServerChange, changes: Sequence[ServerChange], ensembles: Collection[str]) -> bool:
    """Return whether another change brought it about.

    A restart loads all models, a new version unloads the one before, and a member's load reloads its ensembles.
    """
    beside = [other for other in changes if abs(one.at - other.at) <= _TOGETHER]
    if one.kind in _LOADS and any(other.kind is Happened.RESTARTED and other.at <= one.at for other in beside):
        return True
    if one.kind is Happened.UNLOADED:
        return any(other.kind in _LOADS and other.model == one.model for other in beside)
    members = (other for other in beside if other.kind in _LOADS and other.model not in ensembles)
    return one.kind is Happened.RELOADED and one.model in ensembles and any(members)


def _together(changes: Sequence[ServerChange]) -> Iterator[list[ServerChange]]:
    """Yield changes, which are in time order, in groups of less than a minute."""
    group: list[ServerChange] = []
    for one in changes:
        if group and one.at - group[0].at >= SAME_SECONDS:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _entry(deployment: str, origin: str, kind: str, text: str, at: float) -> JournalEntry:
    return JournalEntry(
        action=JournalAction.OBSERVED,
        at=at,
        who=WHO,
        origin=origin,
        deployment=deployment,
        start=at,
        kind=kind,
        text=text,
    )


class _Revision(NamedTuple):
    revision: str
    image: str


class Rollouts:
    """Marks when pods of another revision or image join a deployment. For use by one thread."""

    def __init__(self, attention: Attention, clock: Callable[[], float] = time.time) -> None:
        self._attention, self._clock = attention, clock
        self._known: dict[str, frozenset[_Revision]] = {}

    def look(self, found: Iterable[FoundServer], deployments: Mapping[str, str]) -> None:
        """Compare the pods of each deployment with those of before; what is seen first is no rollout.

        Args:
            found: the servers that are watched.
            deployments: the deployment of each by its URL; those without are left out.

        """
        now: dict[str, set[_Revision]] = {}
        for one in found:
            name, labels = deployments.get(one.server.url), one.target.labels
            revision = _Revision(labels.get(_REVISION, ""), labels.get(_IMAGE, ""))
            if name is not None and any(revision):
                now.setdefault(name, set()).add(revision)
        for name, revisions in now.items():
            before = self._known.get(name)
            for fresh in sorted(revisions - before) if before else ():
                text = _rolled_out(fresh, before or frozenset())
                self._attention.observe(_entry(name, fresh.revision or fresh.image, ROLLOUT, text, self._clock()))
        # A deployment without pods for a moment has not forgotten what it ran.
        self._known |= {name: frozenset(revisions) for name, revisions in now.items()}


def _rolled_out(fresh: _Revision, before: frozenset[_Revision]) -> str:
    images = sorted({one.image for one in before if one.image})
    if fresh.image and images and fresh.image not in images:
        return f"image {fresh.image} rolled out, before: {', '.join(images[:_NAMED])}"
    return f"revision {fresh.revision or fresh.image} rolled out{f', image {fresh.image}' if fresh.image else ''}"
