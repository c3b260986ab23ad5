"""An explanation as far as the requests of one entry are concerned."""

from __future__ import annotations

from dataclasses import replace

from diagnostics.checks.check import Layer
from diagnostics.diagnosis.explanation import Explanation, with_results
from diagnostics.diagnosis.finding import Finding, id_of
from diagnostics.signals.subject import Scope


def focused(explanation: Explanation, entry: str) -> Explanation:
    """Return the explanation with the causes that concern an entry first, and the verdict without what harms nobody.

    Those of the entry, the models behind it, GPUs and the server concern it. Of another model only what takes time
    or answers from requests is kept, since such requests may be the entry's own calls.

    Args:
        explanation: of a window.
        entry: the name of the model or ensemble that clients call.

    """
    behind = _behind(explanation, entry)

    def concerned(finding: Finding) -> bool:
        on = finding.subject
        return on.model in behind if on.model is not None else on.ensemble in (None, entry)

    kept = [finding for finding in explanation.findings if concerned(finding) or finding.impact.harm > 0]
    if len(kept) < len(explanation.findings):
        ids = {finding.id for finding in kept}
        results = [result for result in explanation.results if not result.fires or id_of(result) in ids]
        explanation = replace(with_results(explanation, results), findings=tuple(kept))
    first = [
        finding
        for finding in kept
        if concerned(finding) and finding.caused_by is None and finding.layer is not Layer.TELEMETRY
    ]
    ordered = [*first, *(finding for finding in kept if finding not in first)]
    layer = next((finding.layer for finding in ordered if finding.severity.loud), None)
    return replace(explanation, findings=tuple(ordered), layer=layer)


def _behind(explanation: Explanation, entry: str) -> frozenset[str]:
    """Return the entry, the members that its configuration names, and whom its requests were seen to call."""
    found = {entry}
    for item in explanation.anatomy:
        if entry == (item.ensemble or item.stages[0].model):
            found |= {stage.model for stage in item.stages}
    for server in explanation.evidence.subjects(Scope.SERVER):
        ensemble = explanation.evidence.graph(server.server).ensembles.get(entry)
        found |= set(ensemble.models()) if ensemble else set()
    return frozenset(found)
