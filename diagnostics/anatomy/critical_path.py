"""What shortening one stage can save of a request at most, where others take time beside it.

Branches of an ensemble run in parallel, and its requests wait for the last of them: what is off that path is free.
Counters know means only. The mean of the longest of several paths is no less than the longest path of the means
(Jensen's inequality), so without a stage's time a request takes on average no less than the longest path of the others'
means. What the mean exceeds that by is the most that any change of the stage can save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.window.graph import Ensemble

# A member is called by others, too, if the ensemble makes less than this part of its requests: its mean is not that of
# the ensemble's own then. A window's ends cut less.
_ITS_OWN = 0.95


def bounded(evidence: Evidence, item: Anatomy, ensemble: Ensemble, counters: Anatomy) -> Anatomy:
    """Return an ensemble's anatomy with the most that each stage can cost.

    Args:
        evidence: what was read.
        item: the anatomy, from counters or traces; a stage's own cells are a bound where traces walked critical paths.
        ensemble: its graph.
        counters: the anatomy from counters. What an engine hides is what they leave: it is no time that was measured.

    """
    if not _forks(ensemble):
        return item
    alone = [stage for stage in counters.stages if _is_own(evidence, item, ensemble, stage.model)]
    queued = {stage.model: stage.cells.get(Phase.QUEUE, 0.0) / max(stage.visits, 1.0) for stage in alone}
    own = {stage.model: _shown(stage, item) / max(stage.visits, 1.0) for stage in alone}
    _, at_work = ensemble.longest_path({model: seconds - queued[model] for model, seconds in own.items()})
    mean = counters.mean_seconds
    return replace(
        item,
        stages=tuple(_bounded(mean, stage, ensemble, own) for stage in item.stages),
        most_queued_seconds=max(mean - at_work, 0.0),
    )


def _shown(stage: Stage, item: Anatomy) -> float:
    """Return the seconds of a stage by its row, and those in its engine that traces of the entry show."""
    rows = stage.seconds - stage.cells.get(Phase.ENGINE, 0.0)
    traced = item.stage(stage.model) if item.source == "traces" else None
    return rows + (traced.cells.get(Phase.ENGINE, 0.0) if traced else 0.0)


def _forks(ensemble: Ensemble) -> bool:
    """Whether some steps run beside each other: a chain has one path, as long as it has steps."""
    path, _ = ensemble.longest_path(dict.fromkeys(ensemble.models(), 1.0))
    return len(path) < len(ensemble.steps)


def _is_own(evidence: Evidence, item: Anatomy, ensemble: Ensemble, model: str) -> bool:
    calls = item.requests * sum(step.model == model for step in ensemble.steps)
    return calls >= _ITS_OWN * (evidence.read(REQUESTS, Subject(server=item.server, model=model)).value or 0.0)


def _bounded(mean: float, stage: Stage, ensemble: Ensemble, own: Mapping[str, float]) -> Stage:
    most = _most_seconds(mean, stage.model, ensemble, own)
    return replace(stage, most_seconds=most if stage.path_share is None else min(most, stage.seconds))


def _most_seconds(mean: float, model: str, ensemble: Ensemble, own: Mapping[str, float]) -> float:
    """Return the most that a stage can cost; infinite where another path is as long, to within what is worth a change.

    Of two such paths neither alone saves anything, and both together do.
    """
    _, longest = ensemble.longest_path(own)
    _, through = ensemble.longest_path(own, through=model)
    _, without = ensemble.longest_path({**own, model: 0.0})
    aside = max(longest - through, longest - without)
    return max(mean - without, 0.0) if aside >= max(WORTHWHILE_SHARE * mean, WORTHWHILE_SECONDS) else inf
